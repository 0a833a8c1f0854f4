"""The ShareFetch response packed by hand equals the one that the schemas encode."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import encode_response
from odradek.wire.protocol.hot.current_leaders import CurrentLeaders
from odradek.wire.protocol.hot.share_fetch_response import SharedPartition, pack_share_fetch_response

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(max_size=200)
TOPICS = (UUID(int=5), UUID(int=6))


class MemorySlice:
    """Bytes in place of a range of a file; `is_cached` says whether they may be read at once."""

    position = 0
    file = None

    def __init__(self, data: bytes, *, is_cached: bool) -> None:
        self.data = data
        self.is_cached = is_cached

    @property
    def size(self) -> int:
        return len(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def fileno(self) -> int:
        return -1

    def read(self) -> bytes:
        return self.data

    def read_cached(self) -> bytes | None:
        return self.data if self.is_cached else None


@st.composite
def partitions(draw: st.DrawFn) -> list[SharedPartition]:
    made = []
    for topic in draw(st.lists(st.sampled_from(TOPICS), unique=True)):
        for index in range(draw(st.integers(1, 3))):
            one = SharedPartition(topic.bytes, index)
            one.error_code, one.error_message = draw(st.integers(-1, 140)), draw(TEXTS)
            one.acknowledge_error_code = draw(st.integers(-1, 140))
            one.acknowledge_error_message = draw(TEXTS)
            data = draw(st.binary(max_size=50)) * draw(st.sampled_from([1, 1000]))
            if data:
                one.records = MemorySlice(data, is_cached=draw(st.booleans()))
            one.acquired = draw(st.lists(st.tuples(INT64, INT64, st.integers(0, 100)), max_size=3))
            made.append(one)
    return made


def fields_of(made: list[SharedPartition], leaders: CurrentLeaders | None) -> dict[str, Any]:
    topics: dict[UUID, list[dict[str, Any]]] = {}
    for one in made:
        leader = (0, 0) if leaders is None else leaders.by_partition.get((one.topic_id, one.index), (0, 0))
        topics.setdefault(UUID(bytes=one.topic_id), []).append(
            {
                "partition_index": one.index,
                "error_code": one.error_code,
                "error_message": one.error_message,
                "acknowledge_error_code": one.acknowledge_error_code,
                "acknowledge_error_message": one.acknowledge_error_message,
                "current_leader": {"leader_id": leader[0], "leader_epoch": leader[1]},
                "records": b"" if one.records is None else one.records.read(),
                "acquired_records": [
                    {"first_offset": first, "last_offset": last, "delivery_count": count}
                    for first, last, count in one.acquired
                ],
            }
        )
    nodes = () if leaders is None else leaders.nodes
    return {
        "responses": [{"topic_id": topic, "partitions": parts} for topic, parts in topics.items()],
        "node_endpoints": [
            {"node_id": node_id, "host": host, "port": port, "rack": rack}
            for node_id, host, port, rack in nodes
        ],
    }


@pytest.mark.parametrize("version", [1, 2])
@given(made=partitions(), throttle_ms=st.integers(0, 1000), message=TEXTS, has_leaders=st.booleans())
def test_both_encode_the_same(
    version: int, made: list[SharedPartition], throttle_ms: int, message: str | None, has_leaders: bool
) -> None:
    leaders = None
    if has_leaders:
        named: dict[tuple[str | bytes, int], tuple[int, int]] = {
            (one.topic_id, one.index): (7, 3) for one in made[:1]
        }
        leaders = CurrentLeaders(named, [(7, "host.test", 9092, None), (8, "other.test", 9093, "rack")])
    frame = pack_share_fetch_response(
        7,
        made,
        lock_timeout_ms=30_000,
        throttle_ms=throttle_ms,
        error_code=42,
        error_message=message,
        leaders=leaders,
    )
    if isinstance(frame, list):
        frame = b"".join(part.read() if isinstance(part, MemorySlice) else bytes(part) for part in frame)  # type: ignore[arg-type]
    expected = messages.response(
        ApiKey.SHARE_FETCH,
        version,
        throttle_time=throttle_ms,
        error_code=42,
        error_message=message,
        acquisition_lock_timeout=30_000,
        **fields_of(made, leaders),
    )
    assert bytes(frame) == encode_response(ApiKey.SHARE_FETCH, version, 7, expected)
