"""What consumers embed in the classic protocol: their subscription, and the assignment that they are given.

Both begin with an int16 version; later versions only add fields at the end, so a newer one is read as the
newest known here (3). Layout of a subscription: topics, user data, owned partitions (from 1), generation
(from 2), rack (from 3). Layout of an assignment: partitions by topic, user data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from odradek.foundation.errors import CorruptRecord
from odradek.groups.wire import WireReader, WireWriter

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
SUBSCRIPTION_VERSION_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """`owned` pairs topics with partitions."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[tuple[str, tuple[int, ...]], ...] = ()
    generation: int = -1
    rack_id: str | None = None


def decode_subscription(metadata: bytes) -> Subscription:
    """Raises CorruptRecord when the bytes are no subscription."""
    reader = WireReader(metadata)
    version = reader.int16()
    if version < 0:
        raise CorruptRecord(f"a consumer subscription of version {version}")
    topics = reader.array(reader.string)
    user_data = reader.nullable_bytes()
    owned = reader.array(lambda: (reader.string(), reader.array(reader.int32))) if version >= 1 else ()
    generation = reader.int32() if version >= 2 else -1
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, user_data, owned, generation, rack_id)


def encode_subscription(subscription: Subscription) -> bytes:
    writer = WireWriter()
    writer.int16(subscription.version)
    writer.array(subscription.topics, writer.string)
    writer.bytes_(subscription.user_data)
    if subscription.version >= 1:
        _write_partitions(writer, subscription.owned)
    if subscription.version >= 2:
        writer.int32(subscription.generation)
    if subscription.version >= 3:
        writer.string(subscription.rack_id)
    return writer.finish()


def encode_assignment(partitions: Iterable[tuple[str, Iterable[int]]], *, version: int) -> bytes:
    writer = WireWriter()
    writer.int16(version)
    _write_partitions(writer, partitions)
    writer.bytes_(None)
    return writer.finish()


def decode_assignment(assignment: bytes) -> dict[str, tuple[int, ...]]:
    """Partitions by topic. Raises CorruptRecord when the bytes are no assignment."""
    reader = WireReader(assignment)
    version = reader.int16()
    if version < 0:
        raise CorruptRecord(f"a consumer assignment of version {version}")
    return dict(reader.array(lambda: (reader.string(), reader.array(reader.int32))))


def _write_partitions(writer: WireWriter, partitions: Iterable[tuple[str, Iterable[int]]]) -> None:
    def write_topic(item: tuple[str, Iterable[int]]) -> None:
        writer.string(item[0])
        writer.array(item[1], writer.int32)

    writer.array(partitions, write_topic)
