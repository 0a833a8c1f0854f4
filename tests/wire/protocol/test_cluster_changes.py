"""Following the controller: packed messages are read back equal, and damage is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol import cluster_changes
from odradek.wire.protocol.cluster_changes import FollowRequest, FollowResponse, FollowResponseNode

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
NODES = st.lists(
    st.builds(FollowResponseNode, st.text(max_size=50), st.none() | st.binary(max_size=60), INT32), max_size=8
)


@given(request=st.builds(FollowRequest, INT32, st.text(max_size=20), INT32, INT64, INT32, INT64, INT32))
def test_requests_are_read_back(request: FollowRequest) -> None:
    frame = cluster_changes.pack_request(request)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    body = memoryview(frame)[4:]
    assert cluster_changes.parse_request(body) == request
    for end in range(len(body)):
        with pytest.raises(InvalidRequest):
            cluster_changes.parse_request(body[:end])


@given(nodes=NODES, epoch=INT32, number=INT64, snapshot=st.booleans(), complete=st.booleans(), data=st.data())
def test_answers_are_read_back(
    nodes: list[FollowResponseNode],
    epoch: int,
    number: int,
    snapshot: bool,
    complete: bool,
    data: st.DataObject,
) -> None:
    response = FollowResponse(9, 0, epoch, number, snapshot, complete, tuple(nodes))
    frame = cluster_changes.pack_response(response)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    body = memoryview(frame)[4:]
    assert cluster_changes.parse_response(body) == response
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(InvalidRequest):
        cluster_changes.parse_response(body[:end])


@given(frame=st.binary(max_size=80))
def test_noise_is_refused_or_read_within_its_bounds(frame: bytes) -> None:
    for parse in (cluster_changes.parse_request, cluster_changes.parse_response):
        try:
            parse(memoryview(frame))
        except InvalidRequest as refusal:
            assert str(refusal)


def test_another_api_is_not_ours() -> None:
    with pytest.raises(InvalidRequest, match="same release"):
        cluster_changes.parse_request(memoryview(b"\x03\xe8\0\x09" + bytes(40)))
