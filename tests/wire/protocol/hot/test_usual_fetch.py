"""The usual fetch of a session is read, and its answer packed, as any other one is, also where a byte is wrong."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import encode_request
from odradek.wire.protocol.framing import parse_request_header
from odradek.wire.protocol.hot import fetch_request, fetch_response
from odradek.wire.protocol.hot.elements import ELEMENTS_BEFORE
from odradek.wire.protocol.hot.fetch_response import INLINE_BYTES_MAX, FetchedPartition
from odradek.wire.protocol.messages import request

TOPIC = uuid.UUID(int=2**127 + 7)
ASKED = {
    "partition": 3,
    "current_leader_epoch": 4,
    "fetch_offset": 2**40,
    "last_fetched_epoch": 3,
    "log_start_offset": 5,
    "partition_max_bytes": 2**20,
}
ONE_TOPIC = [{"topic_id": TOPIC, "partitions": [ASKED]}]
FOLLOWER = {"replica_state": {"replica_id": 3, "replica_epoch": 9}}


def frame_of(version: int, **fields: Any) -> tuple[memoryview, int]:
    """The frame without its size, and where its body begins."""
    head = {"max_wait": 500, "min_bytes": 1, "max_bytes": 2**24, "session_id": 11, "session_epoch": 12}
    encoded = encode_request(ApiKey.FETCH, version, 1, "me", request(ApiKey.FETCH, version, **head, **fields))
    frame = memoryview(encoded)[4:]
    return frame, parse_request_header(frame).body_position


def outcome(parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except (InvalidRequest, struct.error, IndexError) as refused:
        # What `parse_fetch_request` makes of the others.
        return InvalidRequest if not isinstance(refused, InvalidRequest) else type(refused)


@pytest.mark.parametrize("replica", [{}, FOLLOWER], ids=["client", "follower"])
@pytest.mark.parametrize("topics", [[], ONE_TOPIC], ids=["none", "one"])
@pytest.mark.parametrize("version", [15, 17])
def test_a_damaged_request_is_read_as_by_the_long_way(version: int, topics: Any, replica: Any) -> None:
    frame, position = frame_of(version, topics=topics, **replica)
    assert fetch_request.parse_usual(frame, position) is not None
    damaged = [bytes(frame), bytes(frame) + b"\0"]
    damaged += [bytes(frame[:end]) for end in range(position, len(frame))]
    for number in range(position, len(frame)):
        for value in (0, 1, 2, 3, frame[number] ^ 0x80, 0xFF):
            damaged.append(bytes(frame[:number]) + bytes([value]) + bytes(frame[number + 1 :]))
    for data in damaged:
        one = memoryview(data)
        usual = outcome(partial(fetch_request.parse_fetch_request, version, one, position))
        assert usual == outcome(
            partial(fetch_request.parse_flexible, version, one, position, ELEMENTS_BEFORE)
        )


@pytest.mark.parametrize(
    "fields",
    [
        {"topics": ONE_TOPIC * 2},
        {"topics": [{"topic_id": TOPIC, "partitions": [ASKED, ASKED]}]},
        {"topics": [], "forgotten_topics_data": [{"topic_id": TOPIC, "partitions": [1]}]},
        {"topics": [], "rack_id": "a"},
    ],
    ids=["two topics", "two partitions", "one forgotten", "a rack"],
)
def test_other_requests_are_left_to_the_long_way(fields: Any) -> None:
    assert fetch_request.parse_usual(*frame_of(17, **fields)) is None


class _CachedSlice:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read_cached(self) -> bytes:
        return self._data


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 20_000])
@pytest.mark.parametrize("aborted", [None, [], [(1, 2)]])
@pytest.mark.parametrize("change", [{}, {"error_code": 1}, {"preferred_replica": 3}, {"diverging": (1, 2)}])
def test_an_answer_of_one_partition_is_packed_the_same(
    size: int, aborted: Any, change: dict[str, Any]
) -> None:
    one = FetchedPartition(TOPIC.bytes, 3)
    one.high_watermark, one.last_stable_offset, one.log_start_offset = 2**40, 2**39, 7
    one.aborted = aborted
    if size:
        records: Any = _CachedSlice(b"r" * size)
        one.records, one.size = records, size
    for name, value in change.items():
        setattr(one, name, value)
    long_way = fetch_response.Packing(17, None, INLINE_BYTES_MAX).pack(9, [one], session_id=11, error_code=0)
    assert fetch_response.pack_fetch_response(17, 9, [one], session_id=11, error_code=0) == long_way
