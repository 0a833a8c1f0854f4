"""Checkpoints, heartbeats and offset syncs have the bytes that MirrorMaker 2 4.1.1 was seen to write."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    TopicIds,
    checkpoint_key,
    checkpoint_value,
    heartbeat_key,
    heartbeat_value,
    offset_sync_key,
    offset_sync_value,
    parse_checkpoint,
    parse_heartbeat,
    parse_offset_sync,
    parse_run_header,
    parse_topics_header,
    run_header,
    topics_header,
)
from odradek.mirror.offset_translation import OffsetRun

NAMES = st.text(max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def test_a_checkpoint_has_the_bytes_of_mirror_maker() -> None:
    checkpoint = Checkpoint("g1", TopicPartition("A.srcx", 0), 120, 102, "")
    assert checkpoint_key(checkpoint).hex() == "00026731" + "0006412e73726378" + "00000000"
    assert checkpoint_value(checkpoint).hex() == "0000" + "0000000000000078" + "0000000000000066" + "0000"


def test_a_heartbeat_has_the_bytes_of_mirror_maker() -> None:
    heartbeat = Heartbeat("B", "A", 0x01A205E76B47)
    assert heartbeat_key(heartbeat).hex() == "000142" + "000141"
    assert heartbeat_value(heartbeat).hex() == "0000" + "000001a205e76b47"


def test_an_offset_sync_has_no_version() -> None:
    sync = OffsetSync(TopicPartition("srcx", 1), 202, 249)
    assert offset_sync_key(sync).hex() == "000473726378" + "00000001"
    assert offset_sync_value(sync).hex() == "00000000000000ca" + "00000000000000f9"


@given(NAMES, NAMES, INT32, INT64, INT64, NAMES)
def test_what_is_written_is_read(
    group_id: str, topic: str, number: int, source: int, target: int, metadata: str
) -> None:
    partition = TopicPartition(topic, number)
    checkpoint = Checkpoint(group_id, partition, source, target, metadata)
    assert parse_checkpoint(checkpoint_key(checkpoint), checkpoint_value(checkpoint)) == checkpoint
    sync = OffsetSync(partition, source, target)
    assert parse_offset_sync(offset_sync_key(sync), offset_sync_value(sync)) == sync
    heartbeat = Heartbeat(group_id, topic, source)
    assert parse_heartbeat(heartbeat_key(heartbeat), heartbeat_value(heartbeat)) == heartbeat


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_other_records_are_refused_with_a_reason(key: bytes, value: bytes) -> None:
    for parse in (parse_checkpoint, parse_heartbeat, parse_offset_sync):
        try:
            parse(key, value)
        except InvalidRequest as refused:
            assert "mirror's topic" in str(refused)


def test_a_later_version_is_refused() -> None:
    checkpoint = Checkpoint("g", TopicPartition("t", 0), 1, 1, "")
    with pytest.raises(InvalidRequest, match="version 1; only 0"):
        parse_checkpoint(checkpoint_key(checkpoint), b"\0\1" + checkpoint_value(checkpoint)[2:])


def test_headers_hold_ids_and_runs() -> None:
    ids = TopicIds(uuid.uuid4(), uuid.uuid4())
    run = OffsetRun(10, 20, 5, 16, 9)
    headers = [topics_header(ids), run_header(run)]
    assert parse_topics_header(headers) == ids
    assert parse_run_header(headers) == run
    assert parse_topics_header([]) is None and parse_run_header([]) is None
    assert parse_run_header([("odradek.run", b"short")]) is None
    assert parse_run_header([run_header(OffsetRun(10, 20, 5, 16, 12))]) is None  # more records than offsets
