"""The bytes that members of a classic group exchange through the broker, which never looks inside.

    Subscription  version int16 · topics [string] · user_data bytes · v1+ owned [topic string, [partition int32]]
                  · v2+ generation int32 · v3+ rack nullable string
    Assignment    version int16 · [topic string, [partition int32]] · user_data bytes

Both grow only at their end, so a reader takes what it knows and ignores the rest. Written here are version 1
(subscription: the range assignor needs no more) and 0 (assignment).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def encode_subscription(topics: Sequence[str], owned: Iterable[TopicPartition] = ()) -> bytes:
    """A member's wish for `topics`."""
    parts = [_INT16.pack(1), _INT32.pack(len(topics))]
    parts.extend(_string(topic) for topic in topics)
    parts.append(_INT32.pack(-1))
    parts.append(_partitions(owned))
    return b"".join(parts)


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """The topics a member wants. Raises InvalidRequest when the bytes are no subscription."""
    try:
        (count,) = _INT32.unpack_from(data, 2)
        topics: list[str] = []
        position = 6
        for _ in range(count):
            topic, position = _read_string(data, position)
            topics.append(topic)
    except (struct.error, UnicodeDecodeError) as failure:
        raise InvalidRequest(f"a member's subscription cannot be read: {failure}") from failure
    return tuple(topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """What a member shall read."""
    return b"".join((_INT16.pack(0), _partitions(partitions), _INT32.pack(-1)))


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """What a member shall read; nothing for empty bytes. Raises InvalidRequest when the bytes are no assignment."""
    if not data:
        return ()
    try:
        (topic_count,) = _INT32.unpack_from(data, 2)
        partitions: list[TopicPartition] = []
        position = 6
        for _ in range(topic_count):
            topic, position = _read_string(data, position)
            (count,) = _INT32.unpack_from(data, position)
            if count < 0 or position + 4 + 4 * count > len(data):
                raise struct.error(f"{count} partitions do not fit in the bytes that are left")
            numbers = struct.unpack_from(f">{count}i", data, position + 4)
            position += 4 + 4 * count
            partitions.extend(TopicPartition(topic, number) for number in numbers)
    except (struct.error, UnicodeDecodeError) as failure:
        raise InvalidRequest(f"a member's assignment cannot be read: {failure}") from failure
    return tuple(partitions)


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(data, position)
    end = position + 2 + length
    if length < 0 or end > len(data):
        raise struct.error("a string does not fit in the bytes that are left")
    return bytes(data[position + 2 : end]).decode(), end


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts.append(_string(topic))
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)
