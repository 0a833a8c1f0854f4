"""The follower's Fetch by hand is the one that the generated messages write and read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.foundation.errors import FrameError
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import parse_request_header
from odradek.wire.protocol.hot.replica_fetch import FETCH_VERSION, ReplicaFetch
from tests.support.examples import examples
from tests.wire.protocol.hot.implementations import Implementation, each_implementation

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
IDS = st.uuids()
FEW = settings(max_examples=examples(60), deadline=None)


@each_implementation
@FEW
@given(
    numbers=st.tuples(INT32, INT64, INT32, INT32, INT32, INT32, INT32, INT32),
    topics=st.dictionaries(
        IDS, st.lists(st.tuples(INT32, st.tuples(INT32, INT64, INT32, INT64)), max_size=200), max_size=3
    ),
    forgotten=st.dictionaries(IDS, st.lists(INT32, max_size=200), max_size=2),
)
def test_what_is_asked(hot: Implementation, numbers: Any, topics: Any, forgotten: Any) -> None:
    replica_id, replica_epoch, wait_ms, bytes_min, bytes_max, partition_bytes_max, session, epoch = numbers
    fetch = ReplicaFetch(
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        partition_max_bytes=partition_bytes_max,
        session_id=session,
        session_epoch=epoch,
        topics={topic.bytes: asked for topic, asked in topics.items()},
        forgotten={topic.bytes: indexes for topic, indexes in forgotten.items()},
    )
    frame = hot.pack_replica_fetch(fetch, correlation_id=9, client_id=b"broker-1-fetcher")
    wanted = messages.request(
        ApiKey.FETCH,
        FETCH_VERSION,
        replica_state={"replica_id": replica_id, "replica_epoch": replica_epoch},
        max_wait=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        session_id=session,
        session_epoch=epoch,
        topics=[
            {
                "topic_id": topic,
                "partitions": [
                    {
                        "partition": index,
                        "current_leader_epoch": leader_epoch,
                        "fetch_offset": offset,
                        "last_fetched_epoch": last_epoch,
                        "log_start_offset": start,
                        "partition_max_bytes": partition_bytes_max,
                    }
                    for index, (leader_epoch, offset, last_epoch, start) in asked
                ],
            }
            for topic, asked in topics.items()
        ],
        forgotten_topics_data=[
            {"topic_id": topic, "partitions": indexes} for topic, indexes in forgotten.items()
        ],
    )
    header = parse_request_header(memoryview(frame)[4:])
    assert (header.correlation_id, header.client_id) == (9, "broker-1-fetcher")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    read = codec.decode_request(ApiKey.FETCH, FETCH_VERSION, memoryview(frame)[4:], header.body_position)
    assert read == wanted


ANSWERS = st.fixed_dictionaries(
    {
        "partition_index": INT32,
        "error_code": st.sampled_from([0, 1, 6, 74]),
        "high_watermark": INT64,
        "log_start_offset": INT64,
        "last_stable_offset": INT64,
        "aborted_transactions": st.none()
        | st.lists(st.fixed_dictionaries({"producer_id": INT64, "first_offset": INT64}), max_size=2),
        "records": st.none() | st.binary(max_size=300),
    },
    optional={
        "diverging_epoch": st.fixed_dictionaries(
            {"epoch": st.integers(0, 2**31 - 1), "end_offset": st.integers(0, 2**40)}
        ),
        "current_leader": st.fixed_dictionaries(
            {"leader_id": st.integers(1, 9), "leader_epoch": st.integers(1, 9)}
        ),
    },
)
TOPICS = st.fixed_dictionaries({"topic_id": IDS, "partitions": st.lists(ANSWERS, max_size=130)})


@each_implementation
@FEW
@given(error_code=st.sampled_from([0, 70]), session_id=INT32, topics=st.lists(TOPICS, max_size=3))
def test_what_is_answered(hot: Implementation, error_code: int, session_id: int, topics: Any) -> None:
    message = messages.response(
        ApiKey.FETCH, FETCH_VERSION, error_code=error_code, session_id=session_id, responses=topics
    )
    frame = memoryview(codec.encode_response(ApiKey.FETCH, FETCH_VERSION, 9, message))[4:]
    answer = hot.parse_fetch_answer(frame)
    assert (answer.error_code, answer.session_id) == (error_code, session_id)
    wanted = [(topic["topic_id"].bytes, one) for topic in topics for one in topic["partitions"]]
    assert len(answer.partitions) == len(wanted)
    for read, (topic_id, one) in zip(answer.partitions, wanted, strict=True):
        parts = one.get("diverging_epoch", {"epoch": -1, "end_offset": -1})
        assert read._replace(records=memoryview(bytes(read.records))) == (
            topic_id,
            *(one[name] for name in ("partition_index", "error_code", "high_watermark", "log_start_offset")),
            one["records"] or b"",
            *(parts["epoch"], parts["end_offset"]),
        )


@each_implementation
def test_a_truncated_answer_is_refused(hot: Implementation) -> None:
    partitions = [
        {"partition_index": 0, "records": b"x" * 300, "diverging_epoch": {"epoch": 1, "end_offset": 2}}
    ]
    message = messages.response(
        ApiKey.FETCH, FETCH_VERSION, responses=[{"topic_id": None, "partitions": partitions}]
    )
    frame = memoryview(codec.encode_response(ApiKey.FETCH, FETCH_VERSION, 9, message))[4:]
    assert hot.parse_fetch_answer(frame).partitions[0].diverging_epoch == 1
    for end in range(4, len(frame) - 1):
        with pytest.raises(FrameError, match="cannot be read"):
            hot.parse_fetch_answer(frame[:end])
