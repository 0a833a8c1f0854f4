"""The names that a topic may have, and the cluster's internal topics."""

from __future__ import annotations

import re
from typing import Final

from odradek.foundation.errors import InvalidTopic
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC

# Kafka's bound: a directory is named topic-partition, and file names end at 255.
TOPIC_NAME_LENGTH_MAX: Final = 249

TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTION_STATE, SHARE_GROUP_STATE})

_ALLOWED: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal_topic(name: str) -> bool:
    """Whether the cluster creates and writes this topic itself."""
    return name in INTERNAL_TOPICS


def validate_topic_name(name: str) -> None:
    """Raises InvalidTopic, with the mistake, for a name that no topic may have."""
    if not name:
        raise InvalidTopic("a topic's name must not be empty")
    if name in (".", ".."):
        raise InvalidTopic(f"a topic cannot be named {name!r}, since no directory can have that name")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise InvalidTopic(
            f"the topic name of {len(name)} characters is too long ({name[:32]}…): {TOPIC_NAME_LENGTH_MAX} are allowed"
        )
    if not _ALLOWED.fullmatch(name):
        raise InvalidTopic(
            f"the topic name {name!r} has characters that are not allowed: use letters and digits of ASCII, "
            "'.', '_' and '-'"
        )


def collision_key(name: str) -> str:
    """Names with the same key cannot both exist: metrics write '.' as '_'."""
    return name.replace(".", "_")
