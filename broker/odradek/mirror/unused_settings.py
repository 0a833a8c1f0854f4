"""Keys of MirrorMaker 2 and Kafka Connect that may stand in a mirror's file and have no effect here, or are refused."""

from __future__ import annotations

from typing import Final

from odradek.client import properties
from odradek.foundation.known_names import read_names

_NAMES: Final = read_names(__file__, "unused_settings.txt")
_KEYS: Final = frozenset(read_names(properties.__file__, "unused_properties.txt")) | frozenset(_NAMES)
_PREFIXES: Final = tuple(name.removesuffix("*") for name in _NAMES if name.endswith("*"))
# Code of the user's that MirrorMaker would run, by the class that it has without it.
CLASSES: Final = {
    "topic.filter.class": "DefaultTopicFilter",
    "group.filter.class": "DefaultGroupFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "forwarding.admin.class": "ForwardingAdmin",
}
RENAMED: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
}


def is_unused(key: str) -> bool:
    """Whether MirrorMaker knows this key, and a mirror has no use for it."""
    return key in _KEYS or key.startswith(_PREFIXES)
