"""The bytes of Produce, the request that brokers get most often: read and packed by hand.

    request   transactional_id nullable string, acks int16, timeout int32 ms,
              topics [ name string | from v13 topic id 16 bytes,
                       partitions [ index int32, records nullable bytes ] ]
    response  topics [ topic as in the request, partitions [ index int32, error int16, base offset int64,
                       log append time int64, from v5 log start offset int64,
                       from v8 record errors [ batch index int32, message nullable string ],
                               message nullable string ] ],
              throttle time int32 ms; the tagged fields of v10 on are `current_leaders`

From v9 on lengths are compact and each structure ends with tagged fields. A topic's bytes are kept as they are, for the
response. Records are slices of the frame.
"""

from __future__ import annotations

import struct
from typing import Final

from odradek.foundation.errors import InvalidRequest, NotLeaderOrFollower
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.errors import code_of
from odradek.wire.protocol.hot.current_leaders import NO_TAGS, PRODUCE_TAG, CurrentLeaders
from odradek.wire.protocol.hot.elements import ELEMENTS_BEFORE, TooManyElements
from odradek.wire.protocol.varint import append_unsigned_varint, read_unsigned_varint, skip_tagged_fields

_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_RECORD_ERRORS: Final = 8
FIRST_FLEXIBLE: Final = 9
FIRST_WITH_LEADERS: Final = 10
FIRST_WITH_TOPIC_IDS: Final = 13

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_INDEX_AND_LENGTH: Final = struct.Struct(">ii")
# The usual request up to its records' length: no transactional id, acks, timeout, one topic, one partition.
_ONE_BY_ID: Final = struct.Struct(">BhiB16sBi")
_ONE_BY_ID_BYTES: Final = _ONE_BY_ID.size
_ONE_BY_NAME: Final = struct.Struct(">BhiBB")
_ONE_BY_NAME_BYTES: Final = _ONE_BY_NAME.size
_ONE_INDEX: Final = struct.Struct(">Bi")
_ONE_INDEX_BYTES: Final = _ONE_INDEX.size

# The length of what is null, up to version 8; another length below zero is damage.
_NULL: Final = -1

_short_at = _SHORT.unpack_from
_int_at = _INT.unpack_from
_acks_at = _ACKS_AND_TIMEOUT.unpack_from
_index_and_length_at = _INDEX_AND_LENGTH.unpack_from
_one_by_id_at = _ONE_BY_ID.unpack_from
_one_by_name_at = _ONE_BY_NAME.unpack_from
_one_index_at = _ONE_INDEX.unpack_from
# A named tuple's own constructor takes three times as long.
_new = tuple.__new__


class ProducedTopic(NamedTuple):
    """One topic of a request: its bytes there, its name or the 16 bytes of its id, and its partitions'
    records.
    """

    raw: bytes
    key: str | bytes
    partitions: list[tuple[int, memoryview | None]]


class ProduceRequest(NamedTuple):
    """A request's parts."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProducedTopic]


def parse_produce_request(
    version: int, frame: memoryview, position: int, elements_before: int = ELEMENTS_BEFORE
) -> ProduceRequest:
    """The request whose body begins at `position`. Raises InvalidRequest when the bytes are no such request.

    Raises TooManyElements for more than one turn takes, or with 0 for `elements_before`, for more than is allowed.
    """
    try:
        if version >= FIRST_FLEXIBLE:
            return _parse_flexible(frame, position, elements_before, has_ids=version >= FIRST_WITH_TOPIC_IDS)
        return _parse_plain(frame, position, elements_before)
    except (struct.error, IndexError) as failure:
        raise InvalidRequest(
            f"PRODUCE version {version}: the frame of {len(frame)} bytes ends within a field; it was cut off"
        ) from failure
    except UnicodeDecodeError as failure:
        raise InvalidRequest(f"PRODUCE version {version}: a name is not UTF-8: {failure}") from failure


# A request with records for one partition only. Its parts are acks, the topic's bytes there, its name or the 16 bytes
# of its id, the partition, the records, and the timeout in milliseconds. A plain tuple is taken apart in less than half
# of a named one's time.
OnePartition = tuple[int, bytes, str | bytes, int, memoryview, int]


def parse_one_partition(version: int, frame: memoryview, position: int) -> OnePartition | None:
    """The usual request of the versions from 9 on: records for one partition, no transaction.

    None for any other request, and for an incomplete one: `parse_produce_request` says what is wrong with it.
    """
    key: str | bytes
    try:
        if version >= FIRST_WITH_TOPIC_IDS:
            transaction, acks, timeout_ms, topics, raw, partitions, index = _one_by_id_at(frame, position)
            key = raw
            position += _ONE_BY_ID_BYTES
        else:
            transaction, acks, timeout_ms, topics, name_length = _one_by_name_at(frame, position)
            position += _ONE_BY_NAME_BYTES
            end = position + name_length - 1
            if not 1 <= name_length < 0x80:
                return None
            raw = bytes(frame[position - 1 : end])
            key = str(frame[position:end], "utf-8")
            partitions, index = _one_index_at(frame, end)
            position = end + _ONE_INDEX_BYTES
        if transaction or topics != 2 or partitions != 2:
            return None
        length, position = _varint(frame, position)
        end = position + length - 1
        # Three structures end with tagged fields, of which there are none.
        if length <= 1 or end + 3 != len(frame) or frame[end] or frame[end + 1] or frame[end + 2]:
            return None
    except (struct.error, IndexError, UnicodeDecodeError, InvalidRequest):
        return None
    return acks, raw, key, index, frame[position:end], timeout_ms


def _varint(frame: memoryview, position: int) -> tuple[int, int]:
    first = frame[position]
    if first < 0x80:
        return first, position + 1
    # The records of most batches take two bytes for their length.
    second = frame[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    return read_unsigned_varint(frame, position)


def _tags(frame: memoryview, position: int) -> int:
    return position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)


def _parse_flexible(frame: memoryview, position: int, elements: int, *, has_ids: bool) -> ProduceRequest:
    length, position = _varint(frame, position)
    transactional_id = None
    if length:
        transactional_id = str(_slice(frame, position, length - 1), "utf-8")
        position += length - 1
    acks, timeout_ms = _acks_at(frame, position)
    topic_count, position = _varint(frame, position + 6)
    if not topic_count:
        raise _null("topics")
    elements += topic_count
    topics: list[ProducedTopic] = []
    for _ in range(topic_count - 1):
        start = position
        key: str | bytes
        if has_ids:
            position += 16
            raw = key = bytes(_slice(frame, start, 16))
        else:
            length, position = _varint(frame, position)
            key = str(_slice(frame, position, length - 1), "utf-8")
            position += length - 1
            raw = bytes(frame[start:position])
        partition_count, position = _varint(frame, position)
        elements += partition_count
        if elements > REQUEST_ARRAY_ELEMENTS_MAX:
            raise _too_many(elements)
        if not partition_count:
            raise _null("partitions")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count - 1):
            (index,) = _int_at(frame, position)
            length, position = _varint(frame, position + 4)
            if length:
                partitions.append((index, _slice(frame, position, length - 1)))
                position = _tags(frame, position + length - 1)
            else:
                partitions.append((index, None))
                position = _tags(frame, position)
        position = _tags(frame, position)
        topics.append(_new(ProducedTopic, (raw, key, partitions)))
    _tags(frame, position)
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _parse_plain(frame: memoryview, position: int, elements: int) -> ProduceRequest:
    (length,) = _short_at(frame, position)
    position += 2
    transactional_id = None
    if length != _NULL:
        transactional_id = str(_slice(frame, position, length), "utf-8")
        position += length
    acks, timeout_ms = _acks_at(frame, position)
    (topic_count,) = _int_at(frame, position + 6)
    position += 10
    if topic_count < 0:
        raise _null("topics")
    elements += topic_count
    topics: list[ProducedTopic] = []
    for _ in range(topic_count):
        (length,) = _short_at(frame, position)
        if length < 0:
            raise _null("name of a topic")
        raw = bytes(_slice(frame, position, 2 + length))
        position += 2 + length
        (partition_count,) = _int_at(frame, position)
        position += 4
        elements += partition_count
        if elements > REQUEST_ARRAY_ELEMENTS_MAX:
            raise _too_many(elements)
        if partition_count < 0:
            raise _null("partitions")
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, length = _index_and_length_at(frame, position)
            position += 8
            if length != _NULL:
                partitions.append((index, _slice(frame, position, length)))
                position += length
            else:
                partitions.append((index, None))
        topics.append(ProducedTopic(raw, str(raw[2:], "utf-8"), partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _too_many(elements: int) -> TooManyElements:
    # A hundred megabytes of nearly empty entries would become gigabytes of objects.
    return TooManyElements(f"a request announces {elements} topics and partitions; split it")


def _null(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"a request has a length below zero for its {what}; an empty value is allowed, null is not"
    )


def _slice(frame: memoryview, position: int, size: int) -> memoryview:
    end = position + size
    if size < 0 or end > len(frame):
        raise IndexError(end)
    return frame[position:end]


# --- the response ----------------------------------------------------------------------------------------------------

NOT_LEADER: Final = code_of(NotLeaderOrFollower)

_HEAD: Final = struct.Struct(">ii")
_RESULT: Final = struct.Struct(">ihqq")
_RESULT_WITH_START: Final = struct.Struct(">ihqqq")
# The same with an empty array, null and no tags.
_GOOD_RESULT: Final = struct.Struct(">ihqqqBBB")
_good_result = _GOOD_RESULT.pack


class ProducePartitionResult(NamedTuple):
    """The answer of one partition. `record_errors` are (index in the batch, message)."""

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
    topics: list[tuple[bytes, list[ProducePartitionResult]]],
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


def _put_errors(out: bytearray, result: ProducePartitionResult, *, is_flexible: bool) -> None:
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
# The bytes of such a frame besides the topic's name or id.
ONE_PARTITION_BYTES: Final = _ONE_FLEXIBLE_HEAD.size + _ONE_FLEXIBLE_TAIL.size
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
