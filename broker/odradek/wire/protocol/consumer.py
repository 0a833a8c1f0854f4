"""The bytes that consumers of a classic group send each other through the coordinator: subscriptions and assignments.

    subscription  version int16, topics [string], user data nullable bytes,
                  v1: owned partitions [topic string, partitions [int32]], v2: generation int32,
                  v3: rack nullable string
    assignment    version int16, partitions [topic string, partitions [int32]], user data nullable bytes

The coordinator passes these bytes on unread; they are read to describe a group, to find topics that it
still uses, and by clients. A version newer than 3 is read as 3, since every version so far only appends
fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.wire.protocol.messages import data
from odradek.wire.protocol.reading import structure_reader
from odradek.wire.protocol.schema import data_class
from odradek.wire.protocol.writing import structure_writer

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage

PROTOCOL_TYPE: Final = "consumer"
VERSION_MAX: Final = 3

_SUBSCRIPTION: Final = "consumer_protocol_subscription"
_ASSIGNMENT: Final = "consumer_protocol_assignment"


# Topics with partitions of theirs, as on the wire.
PartitionsByTopic = tuple[tuple[str, tuple[int, ...]], ...]


class Subscription(NamedTuple):
    """The topics that a member asks for, and the partitions that it has."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: PartitionsByTopic = ()
    generation_id: int = -1
    rack_id: str | None = None


class ConsumerProtocolAssignment(NamedTuple):
    """The partitions that a member is given."""

    version: int
    partitions: PartitionsByTopic
    user_data: bytes | None = None


def parse_subscription(content: bytes | memoryview) -> Subscription:
    """Read a member's metadata. Raises InvalidRequest when it is not of the consumer protocol."""
    version, message = _parse(_SUBSCRIPTION, content)
    return Subscription(
        version=version,
        topics=message.topics,
        user_data=message.user_data,
        owned_partitions=_by_topic(getattr(message, "owned_partitions", ())),
        generation_id=getattr(message, "generation_id", -1),
        rack_id=getattr(message, "rack_id", None),
    )


def parse_assignment(content: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Read a member's assignment; no bytes at all are an empty one. Raises InvalidRequest as above."""
    if len(content) == 0:
        return ConsumerProtocolAssignment(version=0, partitions=())
    version, message = _parse(_ASSIGNMENT, content)
    return ConsumerProtocolAssignment(
        version=version, partitions=_by_topic(message.assigned_partitions), user_data=message.user_data
    )


def build_subscription(
    topics: Sequence[str],
    *,
    version: int = VERSION_MAX,
    user_data: bytes | None = None,
    owned_partitions: Iterable[tuple[str, Iterable[int]]] = (),
    generation_id: int = -1,
    rack_id: str | None = None,
) -> bytes:
    """The metadata of a member; fields that `version` lacks are left out."""
    return _build(
        _SUBSCRIPTION,
        version,
        {
            "topics": topics,
            "user_data": user_data,
            "owned_partitions": _topics(owned_partitions),
            "generation_id": generation_id,
            "rack_id": rack_id,
        },
    )


def build_assignment(
    partitions: Iterable[tuple[str, Iterable[int]]],
    *,
    version: int = VERSION_MAX,
    user_data: bytes | None = None,
) -> bytes:
    return _build(_ASSIGNMENT, version, {"assigned_partitions": _topics(partitions), "user_data": user_data})


def _parse(name: str, content: bytes | memoryview) -> tuple[int, AnyMessage]:
    view = memoryview(content)
    if len(view) < 2:
        raise InvalidRequest(f"{len(view)} bytes are too short for a {name}")
    version = int.from_bytes(view[:2], "big", signed=True)
    if version < 0:
        raise InvalidRequest(f"a {name} has the version {version}")
    read = structure_reader(data_class(name, min(version, VERSION_MAX)))
    try:
        return version, read(view, 2, [REQUEST_ARRAY_ELEMENTS_MAX])[0]
    except struct.error as failure:
        raise InvalidRequest(f"a {name} of {len(view)} bytes was cut off within a field") from failure


def _build(name: str, version: int, fields: Mapping[str, object]) -> bytes:
    version = min(version, VERSION_MAX)
    out = bytearray(version.to_bytes(2, "big"))
    structure_writer(data_class(name, version))(out, data(name, version, **fields))
    return bytes(out)


def _by_topic(topics: Iterable[AnyMessage]) -> PartitionsByTopic:
    return tuple((topic.topic, tuple(topic.partitions)) for topic in topics)


def _topics(partitions: Iterable[tuple[str, Iterable[int]]]) -> list[dict[str, object]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions]
