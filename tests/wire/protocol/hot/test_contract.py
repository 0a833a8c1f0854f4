"""What is packed and parsed by hand for Produce and Fetch equals what the schemas say, in every version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.foundation.errors import InvalidRequest
from odradek.storage.files import FileSlice
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request, encode_response
from odradek.wire.protocol.framing import parse_request_header
from odradek.wire.protocol.hot.fetch_response import FetchedPartition
from odradek.wire.protocol.hot.produce import (
    FIRST_FLEXIBLE,
    FIRST_WITH_TOPIC_IDS,
    ProducePartitionResult,
    parse_produce_request,
)
from odradek.wire.protocol.varint import encode_unsigned_varint as varint
from tests.support.examples import examples
from tests.wire.protocol.hot.implementations import Implementation, each_implementation

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=150)
TOPIC_IDS = st.uuids().filter(lambda value: value.int != 0)
ERRORS = st.integers(0, 100)
CORRELATION_IDS = INT32
FEW = settings(max_examples=examples(40))


@pytest.mark.thorough
@each_implementation
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@FEW
@given(st.data())
def test_produce_requests(hot: Implementation, version: int, data: st.DataObject) -> None:
    partitions = st.lists(st.tuples(INT32, st.none() | st.binary(max_size=300)), max_size=3)
    topics = data.draw(st.lists(st.tuples(NAMES, TOPIC_IDS, partitions), max_size=3))
    transactional_id = data.draw(st.none() | NAMES)
    acks, timeout_ms = data.draw(st.integers(-(2**15), 2**15 - 1)), data.draw(INT32)
    request = messages.request(
        ApiKey.PRODUCE,
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout=timeout_ms,
        topic_data=[
            {
                "name": name,
                "topic_id": topic_id,
                "partition_data": [{"index": index, "records": records} for index, records in asked],
            }
            for name, topic_id, asked in topics
        ],
    )
    frame = memoryview(encode_request(ApiKey.PRODUCE, version, 1, "me", request))[4:]
    position = parse_request_header(frame).body_position
    parsed = hot.parse_produce_request(version, frame, position)
    assert parsed[:3] == (transactional_id, acks, timeout_ms)
    assert [(topic.key, topic.partitions) for topic in parsed.topics] == [
        (topic_id.bytes if version >= FIRST_WITH_TOPIC_IDS else name, asked)
        for name, topic_id, asked in topics
    ]
    if version >= FIRST_FLEXIBLE:
        same_by_the_short_path(hot, version, frame, position)
    for end in range(position, len(frame), 1 + len(frame) // 20):
        with pytest.raises(InvalidRequest):
            hot.parse_produce_request(version, frame[:end], position)
        if version >= FIRST_FLEXIBLE:
            assert hot.parse_one_partition(version, frame[:end], position) is None


def same_by_the_short_path(hot: Implementation, version: int, frame: memoryview, position: int) -> bool:
    """Whether the short path takes the request; what it reads there must be what the long one reads."""
    one = hot.parse_one_partition(version, frame, position)
    if one is None:
        return False
    long = hot.parse_produce_request(version, frame, position)
    ((raw, key, partitions),) = long.topics
    assert long.transactional_id is None
    assert one == (long.acks, raw, key, *partitions[0], long.timeout_ms)
    assert len(partitions) == 1
    assert len(partitions[0][1]) > 0
    return True


@each_implementation
@pytest.mark.parametrize("version", [v for v in PRODUCE_VERSIONS if v >= FIRST_FLEXIBLE])
@FEW
@given(
    topic=st.tuples(st.text(st.characters(codec="utf-8"), max_size=126), TOPIC_IDS),
    records=st.sampled_from([1, 126, 127, 128, 16_382, 16_383, 20_000]),
    acks=st.integers(-(2**15), 2**15 - 1),
    index=INT32,
    changes=st.lists(st.tuples(st.integers(0, 2**15), st.integers(0, 255)), max_size=3),
)
def test_usual_produce_requests_read_the_same_on_both_paths(
    hot: Implementation,
    version: int,
    topic: tuple[str, uuid.UUID],
    records: int,
    acks: int,
    index: int,
    changes: list[tuple[int, int]],
) -> None:
    name, topic_id = topic
    partition_data = [{"index": index, "records": b"r" * records}]
    request = messages.request(
        ApiKey.PRODUCE,
        version,
        acks=acks,
        timeout=1000,
        topic_data=[{"name": name, "topic_id": topic_id, "partition_data": partition_data}],
    )
    frame = memoryview(bytearray(encode_request(ApiKey.PRODUCE, version, 1, "me", request))[4:])
    position = parse_request_header(frame).body_position
    # A name of more than 126 bytes has a length of two bytes, and goes the long way.
    is_short = version >= FIRST_WITH_TOPIC_IDS or len(name.encode()) <= 126
    assert same_by_the_short_path(hot, version, frame, position) is is_short
    for where, value in changes:
        # Hostile bytes in the fields before the records and in the tags behind them.
        where %= len(frame) - records - position
        frame[position + where if position + where < len(frame) - records - 3 else where - len(frame)] = value
    try:
        hot.parse_produce_request(version, frame, position)
    except InvalidRequest:
        assert hot.parse_one_partition(version, frame, position) is None
    else:
        same_by_the_short_path(hot, version, frame, position)


@each_implementation
@pytest.mark.parametrize("version", [8, 12])
def test_more_topics_and_partitions_than_allowed_are_refused(hot: Implementation, version: int) -> None:
    for topics, partitions in ((2**21 - 1, 0), (2, 2**21 - 1)):
        counts = [
            number.to_bytes(4, "big") if version < FIRST_FLEXIBLE else varint(number)
            for number in (topics, partitions)
        ]
        head, name = (b"\xff\xff", b"\0\1t") if version < FIRST_FLEXIBLE else (b"\0", b"\2t")
        content = head + b"\0\1\0\0\0\1" + counts[0] + name + counts[1] + bytes(1000)
        with pytest.raises(InvalidRequest, match="split it"):
            hot.parse_produce_request(version, memoryview(content), 0)


def topic_bytes(version: int, name: str, topic_id: uuid.UUID) -> bytes:
    """A topic as its request had it, which the answer repeats."""
    request = messages.request(
        ApiKey.PRODUCE, version, topic_data=[{"name": name, "topic_id": topic_id, "partition_data": ()}]
    )
    frame = memoryview(encode_request(ApiKey.PRODUCE, version, 1, None, request))[4:]
    return parse_produce_request(version, frame, parse_request_header(frame).body_position).topics[0].raw


@each_implementation
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@FEW
@given(st.data())
def test_produce_answers(hot: Implementation, version: int, data: st.DataObject) -> None:
    record_errors = st.lists(st.tuples(INT32, NAMES), max_size=2).map(tuple)
    results = st.lists(
        st.builds(
            ProducePartitionResult, INT32, ERRORS, INT64, INT64, INT64, record_errors, st.none() | NAMES
        ),
        max_size=3,
    )
    topics = data.draw(st.lists(st.tuples(NAMES, TOPIC_IDS, results), max_size=3))
    correlation_id = data.draw(CORRELATION_IDS)
    packed = hot.pack_produce_response(
        version, correlation_id, [(topic_bytes(version, name, id_), rows) for name, id_, rows in topics]
    )
    expected = messages.response(
        ApiKey.PRODUCE,
        version,
        responses=[
            {
                "name": name,
                "topic_id": topic_id,
                "partition_responses": [_partition_response(row) for row in rows],
            }
            for name, topic_id, rows in topics
        ],
    )
    assert packed == encode_response(ApiKey.PRODUCE, version, correlation_id, expected)


def _partition_response(row: ProducePartitionResult) -> dict[str, Any]:
    return {
        "index": row.partition,
        "error_code": row.error_code,
        "base_offset": row.base_offset,
        "log_append_time": row.log_append_time_ms,
        "log_start_offset": row.log_start_offset,
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": text} for index, text in row.record_errors
        ],
        "error_message": row.error_message,
    }


@each_implementation
@pytest.mark.parametrize("version", [v for v in PRODUCE_VERSIONS if v >= FIRST_FLEXIBLE])
@FEW
@given(NAMES, TOPIC_IDS, CORRELATION_IDS, INT32, INT64, INT64, INT64)
def test_the_answer_packed_in_one_call(
    hot: Implementation,
    version: int,
    name: str,
    topic_id: uuid.UUID,
    correlation_id: int,
    index: int,
    base_offset: int,
    time_ms: int,
    start: int,
) -> None:
    raw = topic_bytes(version, name, topic_id)
    result = ProducePartitionResult(index, 0, base_offset, time_ms, start)
    assert hot.pack_one_partition(correlation_id, raw, index, base_offset, time_ms, start) == (
        hot.pack_produce_response(version, correlation_id, [(raw, [result])])
    )


class MemoryFile:
    def __init__(self, content: bytes, *, is_cached: bool) -> None:
        self.content = content
        self.is_cached = is_cached

    def pread_cached(self, position: int, size: int) -> bytes | None:
        return self.content[position : position + size] if self.is_cached else None


PARTITIONS = st.fixed_dictionaries(
    {
        "partition": INT32,
        "current_leader_epoch": INT32,
        "fetch_offset": INT64,
        "last_fetched_epoch": INT32,
        "log_start_offset": INT64,
        "partition_max_bytes": INT32,
    }
)


def fetch_request_fields(data: st.DataObject) -> dict[str, Any]:
    topics = st.fixed_dictionaries(
        {"topic": NAMES, "topic_id": TOPIC_IDS, "partitions": st.lists(PARTITIONS, max_size=2)}
    )
    forgotten = st.fixed_dictionaries(
        {"topic": NAMES, "topic_id": TOPIC_IDS, "partitions": st.lists(INT32, max_size=3)}
    )
    return {
        "max_wait": data.draw(INT32),
        "min_bytes": data.draw(INT32),
        "max_bytes": data.draw(INT32),
        "isolation_level": data.draw(st.integers(-128, 127)),
        "session_id": data.draw(INT32),
        "session_epoch": data.draw(INT32),
        "topics": data.draw(st.lists(topics, max_size=3)),
        "forgotten_topics_data": data.draw(st.lists(forgotten, max_size=2)),
        "rack_id": data.draw(st.just("") | NAMES),
    }


@each_implementation
@pytest.mark.parametrize("version", FETCH_VERSIONS)
@FEW
@given(st.data())
def test_fetch_requests(hot: Implementation, version: int, data: st.DataObject) -> None:
    fields = fetch_request_fields(data)
    replica = (-1, -1)
    if data.draw(st.booleans()):
        replica = (3, 9 if version >= 15 else -1)
        fields["replica_state"] = {"replica_id": 3, "replica_epoch": 9}
        fields["replica_id"] = 3
    request = messages.request(ApiKey.FETCH, version, **fields)
    frame = memoryview(encode_request(ApiKey.FETCH, version, 1, "me", request))[4:]
    position = parse_request_header(frame).body_position
    parsed = hot.parse_fetch_request(version, frame, position)
    has_sessions, has_ids = version >= 7, version >= 13
    assert (parsed.replica_id, parsed.replica_epoch) == replica
    assert parsed.rack_id == (fields["rack_id"] if version >= 11 else "")
    assert parsed[:6] == (
        *(fields[name] for name in ("max_wait", "min_bytes", "max_bytes", "isolation_level")),
        *((fields["session_id"], fields["session_epoch"]) if has_sessions else (0, -1)),
    )
    keys = [topic["topic_id"].bytes if has_ids else topic["topic"] for topic in fields["topics"]]
    assert parsed.partitions == [
        (
            key,
            asked["partition"],
            asked["fetch_offset"],
            asked["partition_max_bytes"],
            asked["current_leader_epoch"] if version >= 9 else -1,
            asked["last_fetched_epoch"] if version >= 12 else -1,
            asked["log_start_offset"] if version >= 5 else -1,
        )
        for key, topic in zip(keys, fields["topics"], strict=True)
        for asked in topic["partitions"]
    ]
    assert parsed.forgotten == [
        (topic["topic_id"].bytes if has_ids else topic["topic"], index)
        for topic in fields["forgotten_topics_data"]
        for index in topic["partitions"]
        if has_sessions
    ]
    for end in range(position, len(frame), 1 + len(frame) // 20):
        with pytest.raises(InvalidRequest):
            hot.parse_fetch_request(version, frame[:end], position)


@each_implementation
@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_more_of_a_fetch_than_allowed_and_null_arrays_are_refused(hot: Implementation, version: int) -> None:
    head = bytes({4: 17, 11: 25, 12: 25, 17: 21}[version])
    announced = {True: (varint(2**21), varint(0)), False: (b"\0\x20\0\0", b"\xff\xff\xff\xff")}
    for count, words in zip(announced[version >= 12], ("split it", "null is not"), strict=True):
        with pytest.raises(InvalidRequest, match=words):
            hot.parse_fetch_request(version, memoryview(head + count + bytes(1000)), 0)


def fetched(data: st.DataObject, topic: str | bytes) -> FetchedPartition:
    result = FetchedPartition(topic, data.draw(INT32))
    result.error_code = data.draw(ERRORS)
    result.high_watermark = data.draw(INT64)
    result.last_stable_offset = data.draw(INT64)
    result.log_start_offset = data.draw(INT64)
    size = data.draw(st.sampled_from([0, 1, 200, 20_000]))
    if size:
        file: Any = MemoryFile(b"r" * size, is_cached=data.draw(st.booleans()))
        result.records, result.size = FileSlice(file, 0, size), size
    result.aborted = data.draw(st.none() | st.lists(st.tuples(INT64, INT64), max_size=2))
    result.diverging = data.draw(st.none() | st.just((3, 9)))
    return result


@pytest.mark.thorough
@each_implementation
@pytest.mark.parametrize("version", FETCH_VERSIONS)
@FEW
@given(st.data())
def test_fetch_answers(hot: Implementation, version: int, data: st.DataObject) -> None:
    topics = data.draw(st.lists(st.tuples(NAMES, TOPIC_IDS, st.integers(1, 2)), max_size=3))
    keys = [(name, id_) for name, id_, _ in topics]
    if len({name for name, _ in keys}) < len(keys) or len({id_ for _, id_ in keys}) < len(keys):
        return
    rows = [
        [fetched(data, id_.bytes if version >= 13 else name) for _ in range(count)]
        for name, id_, count in topics
    ]
    correlation_id, session_id, error = data.draw(INT32), data.draw(INT32), data.draw(ERRORS)
    reply = hot.pack_fetch_response(
        version,
        correlation_id,
        [row for group in rows for row in group],
        session_id=session_id,
        error_code=error,
    )
    parts: list[Any] = reply if isinstance(reply, list) else [reply]
    packed = b"".join(
        part.file.content if isinstance(part, FileSlice) else bytes(part)  # type: ignore[union-attr]
        for part in parts
    )
    expected = messages.response(
        ApiKey.FETCH,
        version,
        error_code=error,
        session_id=session_id,
        responses=[
            {"topic": name, "topic_id": id_, "partitions": [_partition_data(row) for row in group]}
            for (name, id_, _), group in zip(topics, rows, strict=True)
        ],
    )
    assert packed == encode_response(ApiKey.FETCH, version, correlation_id, expected)
    assert decode_response(ApiKey.FETCH, version, memoryview(packed)[4:])[0] == correlation_id


def _partition_data(row: FetchedPartition) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "partition_index": row.index,
        "error_code": row.error_code,
        "high_watermark": row.high_watermark,
        "last_stable_offset": row.last_stable_offset,
        "log_start_offset": row.log_start_offset,
        "aborted_transactions": row.aborted
        and [{"producer_id": producer, "first_offset": first} for producer, first in row.aborted],
        "records": b"r" * row.size,
    }
    if row.diverging is not None:
        fields["diverging_epoch"] = {"epoch": row.diverging[0], "end_offset": row.diverging[1]}
    return fields
