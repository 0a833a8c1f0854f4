"""Parts of a producer that properties name by import path, such as `event.handler` and `partitioner.class`.

The path is `MODULE:CLASS` or `MODULE.CLASS`. The class itself may be given too. It is called without arguments. If the
object has `init`, that is called with the properties, as Kafka 0.7 does. Kafka's own names stand for the parts here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Final, cast

from odradek.client.classic.errors import InvalidConfigException
from odradek.client.classic.messages import (
    CallbackHandler,
    DefaultEncoder,
    Encoder,
    EventHandler,
    HashPartitioner,
    Partitioner,
    StringEncoder,
)

_KAFKAS: Final[Mapping[str, object]] = {
    "kafka.serializer.DefaultEncoder": DefaultEncoder,
    "kafka.serializer.StringEncoder": StringEncoder,
    "kafka.producer.DefaultPartitioner": HashPartitioner,
    "kafka.producer.async.DefaultEventHandler": None,
}
# What each part has to have.
_METHODS: Final = {
    "event.handler": ("handle", "close"),
    "callback.handler": tuple(name for name in vars(CallbackHandler) if not name.startswith("_")),
    "partitioner.class": ("partition",),
    "serializer.class": ("to_message",),
    "key.serializer.class": ("to_message",),
}
PLUGIN_PROPERTIES: Final = tuple(_METHODS)


class Plugins:
    """The parts of one producer: those given as objects, else those that its properties name."""

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        encoder: Encoder | None,
        key_encoder: Encoder | None,
        partitioner: Partitioner | None,
        event_handler: EventHandler | None = None,
        callback_handler: CallbackHandler | None = None,
    ) -> None:
        """Raises InvalidConfigException for a path that leads nowhere, and for a part that is given twice."""
        self._properties = properties
        self.encoder = cast("Encoder | None", self._find("serializer.class", encoder))
        self.key_encoder = cast("Encoder | None", self._find("key.serializer.class", key_encoder))
        self.partitioner = cast("Partitioner | None", self._find("partitioner.class", partitioner))
        self.event_handler = cast("EventHandler | None", self._find("event.handler", event_handler))
        self.callback_handler = cast(
            "CallbackHandler | None", self._find("callback.handler", callback_handler)
        )

    def _find(self, name: str, given: object) -> object:
        named = self._properties.get(name)
        if named is None or named == "":
            return given
        if given is not None:
            raise InvalidConfigException(
                f"{name} is a property and an argument of the producer; give one of them"
            )
        found = _import_part(name, named.strip()) if isinstance(named, str) else named
        if isinstance(found, type):
            found = _make(name, found)
        if found is None:
            return None
        missing = [method for method in _METHODS[name] if not callable(getattr(found, method, None))]
        if missing:
            raise InvalidConfigException(
                f"{name} is {_name(named)}, which has no method {missing[0]}; odradek.classic has what to inherit"
            )
        init = getattr(found, "init", None)
        if callable(init):
            init(dict(self._properties))
        return found


def _import_part(name: str, path: str) -> object:
    """What a path names. Raises InvalidConfigException."""
    if path in _KAFKAS:
        return _KAFKAS[path]
    try:
        found: object = pkgutil.resolve_name(path)
    except Exception as failure:
        raise InvalidConfigException(
            f"{name} is {path!r}, which cannot be imported: {failure}; write MODULE:CLASS of a module on Python's path"
        ) from failure
    return found


def _make(name: str, kind: type) -> object:
    try:
        return kind()
    except Exception as failure:
        raise InvalidConfigException(
            f"{name} is {_name(kind)}, which cannot be made without arguments: {failure}"
        ) from failure


def _name(part: object) -> str:
    return f"{part.__module__}:{part.__qualname__}" if isinstance(part, type) else repr(part)
