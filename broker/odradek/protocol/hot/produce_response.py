"""The bytes of a Produce response, packed by hand.

    topics [ topic as in the request, partitions [ index int32, error int16, base offset int64,
             log append time int64, from v5 log start offset int64,
             from v8 record errors [ batch index int32, message nullable string ],
                     message nullable string ] ],
    throttle time int32 ms; the tagged fields of v10 on are `current_leaders`

From v9 on lengths are compact and each structure ends with tagged fields. A topic's bytes are copied from the request.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from odradek.foundation.errors import NotLeaderOrFollower
from odradek.protocol.errors import code_of
from odradek.protocol.hot.current_leaders import NO_TAGS, PRODUCE_TAG, CurrentLeaders
from odradek.protocol.hot.produce_request import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS
from odradek.protocol.varint import append_unsigned_varint, read_unsigned_varint

FIRST_WITH_LEADERS: Final = 10
_FIRST_WITH_RECORD_ERRORS: Final = 8
_FIRST_WITH_LOG_START: Final = 5
NOT_LEADER: Final = code_of(NotLeaderOrFollower)

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ii")
_RESULT: Final = struct.Struct(">ihqq")
_RESULT_WITH_START: Final = struct.Struct(">ihqqq")
# The same with an empty array, null and no tags.
_GOOD_RESULT: Final = struct.Struct(">ihqqqBBB")
_good_result = _GOOD_RESULT.pack


class PartitionResult(NamedTuple):
    """What one partition answers. `record_errors` are (index in the batch, message)."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()
    error_message: str | None = None


def pack_produce_response(
    version: int,
    correlation_id: int,
    topics: list[tuple[bytes, list[PartitionResult]]],
    leaders: CurrentLeaders | None = None,
) -> bytes:
    """The whole frame. `topics` are each topic's bytes in the request and its partitions' results.

    `leaders` are the leaders of partitions that another broker leads, for versions that can name them.
    """
    is_flexible = version >= FIRST_FLEXIBLE
    out = bytearray(8)
    if is_flexible:
        out.append(0)
    _put_count(out, len(topics), is_flexible=is_flexible)
    for raw, results in topics:
        out += raw
        _put_count(out, len(results), is_flexible=is_flexible)
        for result in results:
            if is_flexible and not (
                result.error_code or result.record_errors or result.error_message is not None
            ):
                out += _good_result(*result[:5], 1, 0, 0)
                continue
            if version >= _FIRST_WITH_LOG_START:
                out += _RESULT_WITH_START.pack(*result[:5])
            else:
                out += _RESULT.pack(*result[:4])
            if version >= _FIRST_WITH_RECORD_ERRORS:
                _put_errors(out, result, is_flexible=is_flexible)
            if leaders is not None and result.error_code == NOT_LEADER:
                out += leaders.partition_tags(PRODUCE_TAG, key_of(version, raw), result.partition)
            elif is_flexible:
                out.append(0)
        if is_flexible:
            out.append(0)
    out += b"\0\0\0\0"
    if is_flexible:
        out += NO_TAGS if leaders is None else leaders.endpoint_tags()
    _HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
    return bytes(out)


def key_of(version: int, raw: bytes) -> str | bytes:
    """The topic's id or name, from its bytes in the request."""
    if version >= FIRST_WITH_TOPIC_IDS:
        return raw
    _, position = read_unsigned_varint(memoryview(raw), 0)
    return raw[position:].decode()


def _put_count(out: bytearray, count: int, *, is_flexible: bool) -> None:
    if is_flexible:
        append_unsigned_varint(out, count + 1)
    else:
        out += _INT.pack(count)


def _put_errors(out: bytearray, result: PartitionResult, *, is_flexible: bool) -> None:
    _put_count(out, len(result.record_errors), is_flexible=is_flexible)
    for batch_index, message in result.record_errors:
        out += _INT.pack(batch_index)
        _put_text(out, message, is_flexible=is_flexible)
        if is_flexible:
            out.append(0)
    _put_text(out, result.error_message, is_flexible=is_flexible)


def _put_text(out: bytearray, text: str | None, *, is_flexible: bool) -> None:
    data = b"" if text is None else text.encode()[:0x7FFF]
    if is_flexible:
        append_unsigned_varint(out, 0 if text is None else len(data) + 1)
    else:
        out += _SHORT.pack(-1 if text is None else len(data))
    out += data


# The most frequent response, of one partition without an error, in one call.
_ONE_FLEXIBLE_HEAD: Final = struct.Struct(">iiBB")
_ONE_FLEXIBLE_TAIL: Final = struct.Struct(">BihqqqBBBBiB")
_one_head = _ONE_FLEXIBLE_HEAD.pack
_one_tail = _ONE_FLEXIBLE_TAIL.pack


def pack_one_partition(
    correlation_id: int,
    raw: bytes,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The frame of a response from version 9 on with one partition that took its records."""
    return (
        _one_head(len(raw) + 46, correlation_id, 0, 2)
        + raw
        + _one_tail(2, index, 0, base_offset, log_append_time_ms, log_start_offset, 1, 0, 0, 0, 0, 0)
    )
