"""A follower's Fetch, version 17, by hand: the request that it sends and the answer that it takes, a pair per record.

    request   header 2, max wait int32 ms, min bytes int32, max bytes int32, isolation level int8, session id int32,
              session epoch int32, topics [ topic id 16 bytes, partitions [ index int32, current leader epoch int32,
                  fetch offset int64, last fetched epoch int32, log start offset int64, max bytes int32 ] ],
              forgotten topics [ topic id 16 bytes, partitions [ int32 ] ], rack id string,
              tag 1: replica id int32, epoch of its registration int64
    answer    header 1, throttle time int32 ms, error int16, session id int32,
              topics [ topic id 16 bytes, partitions [ index int32, error int16, high watermark int64,
                  last stable offset int64, log start offset int64,
                  aborted transactions [ producer id int64, first offset int64 ], preferred replica int32,
                  records bytes, tag 0: diverging epoch int32, end offset int64 ] ]

Lengths are compact, and each structure ends with tagged fields. What a follower makes no use of is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct, error
from typing import Final

from odradek.foundation.errors import FrameError, InvalidRequest
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.varint import (
    append_unsigned_varint,
    read_tagged_structure,
    read_unsigned_varint,
    skip_tagged_fields,
)

FETCH_VERSION: Final = 17

_FRONT: Final = Struct(">ihhih")
_HEAD: Final = Struct(">iiibii")
_ASKED: Final = Struct(">iiqiqib")
_INT: Final = Struct(">i")
# No rack, one tagged field: its number, its size, and what it holds, a structure without tagged fields.
_END: Final = Struct(">bbbbiqb")
_SIZE_BYTES: Final = 4

_ANSWER_HEAD: Final = Struct(">ihi").unpack_from
_OFFSETS: Final = Struct(">ihqqq").unpack_from
_OFFSETS_BYTES: Final = 30
_ABORTED_BYTES: Final = 16
_DIVERGING: Final = Struct(">iq")
_new = tuple.__new__

# (current leader epoch, fetch offset, last fetched epoch, log start offset)
Position = tuple[int, int, int, int]


class ReplicaFetch(NamedTuple):
    """The request of a follower; the mappings are by topic id."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    session_id: int
    session_epoch: int
    topics: Mapping[bytes, Sequence[tuple[int, Position]]]
    forgotten: Mapping[bytes, Sequence[int]]


class PartitionAnswer(NamedTuple):
    """The answer of one partition; `diverging_epoch` and `diverging_end_offset` are -1 where the logs do not part."""

    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: int
    diverging_end_offset: int


class FetchAnswer(NamedTuple):
    """The answer as a whole."""

    error_code: int
    session_id: int
    partitions: list[PartitionAnswer]


def pack_replica_fetch(fetch: ReplicaFetch, *, correlation_id: int, client_id: bytes) -> bytes:
    """The whole frame, its size included."""
    out = bytearray(_FRONT.pack(0, ApiKey.FETCH, FETCH_VERSION, correlation_id, len(client_id)))
    out += client_id
    out += b"\0"
    out += _HEAD.pack(
        fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, 0, fetch.session_id, fetch.session_epoch
    )
    append_unsigned_varint(out, len(fetch.topics) + 1)
    for topic_id, asked in fetch.topics.items():
        out += topic_id
        append_unsigned_varint(out, len(asked) + 1)
        for index, position in asked:
            out += _ASKED.pack(index, *position, fetch.partition_max_bytes, 0)
        out += b"\0"
    append_unsigned_varint(out, len(fetch.forgotten) + 1)
    for topic_id, indexes in fetch.forgotten.items():
        out += topic_id
        append_unsigned_varint(out, len(indexes) + 1)
        for index in indexes:
            out += _INT.pack(index)
        out += b"\0"
    out += _END.pack(1, 1, 1, 13, fetch.replica_id, fetch.replica_epoch, 0)
    _INT.pack_into(out, 0, len(out) - _SIZE_BYTES)
    return bytes(out)


def parse_fetch_answer(frame: memoryview) -> FetchAnswer:
    """The answer in `frame`, which begins with its correlation id. Its records stay where they are.

    Raises FrameError when the bytes are no such answer.
    """
    try:
        return _parse(frame)
    except (error, IndexError, InvalidRequest) as failure:
        raise FrameError(
            f"the answer to a fetch, of {len(frame)} bytes, cannot be read: {failure}"
        ) from failure


def _parse(frame: memoryview) -> FetchAnswer:
    position = skip_tagged_fields(frame, _SIZE_BYTES)
    _, error_code, session_id = _ANSWER_HEAD(frame, position)
    position += 10
    partitions: list[PartitionAnswer] = []
    count, position = _count(frame, position)
    if count < 0:
        raise _null("topics")
    for _ in range(count):
        topic_id = bytes(frame[position : position + 16])
        position += 16
        partition_count, position = _count(frame, position)
        if partition_count < 0:
            raise _null("partitions")
        for _ in range(partition_count):
            answer, position = _partition(frame, position, topic_id)
            partitions.append(answer)
        position = _no_tags(frame, position)
    _no_tags(frame, position)
    return FetchAnswer(error_code, session_id, partitions)


def _partition(frame: memoryview, position: int, topic_id: bytes) -> tuple[PartitionAnswer, int]:
    index, error_code, high_watermark, _, log_start_offset = _OFFSETS(frame, position)
    position += _OFFSETS_BYTES
    aborted, position = _count(frame, position)
    for _ in range(aborted):
        position = _no_tags(frame, position + _ABORTED_BYTES)
    size, position = _count(frame, position + 4)
    end = position + max(size, 0)
    if end > len(frame):
        raise IndexError(f"{size} bytes of records at {position}")
    records = frame[position:end]
    if frame[end] == 0:
        epoch = end_offset = -1
        position = end + 1
    else:
        diverging, position = read_tagged_structure(frame, end, 0, _DIVERGING)
        epoch, end_offset = diverging or (-1, -1)
    return (
        _new(
            PartitionAnswer,
            (topic_id, index, error_code, high_watermark, log_start_offset, records, epoch, end_offset),
        ),
        position,
    )


def _null(what: str) -> InvalidRequest:
    return InvalidRequest(f"its {what} are null; an empty array is allowed, null is not")


def _count(frame: memoryview, position: int) -> tuple[int, int]:
    """(elements of a compact array, or bytes; -1 for null, position after the length)."""
    announced = frame[position]
    if announced < 0x80:
        return announced - 1, position + 1
    announced, position = read_unsigned_varint(frame, position)
    return announced - 1, position


def _no_tags(frame: memoryview, position: int) -> int:
    return position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
