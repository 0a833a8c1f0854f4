"""Our own requests keep their bytes: processes of two releases speak with each other while one replaces the other."""

from __future__ import annotations

import pytest

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol import cluster_changes, controller_requests
from odradek.wire.protocol.cluster_changes import FollowRequest, FollowResponse, FollowResponseNode
from odradek.wire.protocol.controller_requests import ForwardResponse, LeaveRequest, LeaveResponse

FRAMES = {
    "0000002f03e8000000000007000962726f6b65722dc3a900000003000001000000000000000005"
    "0000000200000000000001f4": cluster_changes.pack_request(
        FollowRequest(7, "broker-é", 3, 1 << 40, 5, 1 << 33, 500)
    ),
    "00000060000000090000000000040000000800000000010000000004000e2f62726f6b6572732f6964732f31"
    "00000003000000027b7d00052f676f6e65ffffffffffffffff00062f656d70747900000000000000000003"
    "2fc3a97fffffff0000000200ff": cluster_changes.pack_response(
        FollowResponse(
            correlation_id=9,
            controller_epoch=4,
            next_number=1 << 35,
            is_snapshot=True,
            is_complete=False,
            nodes=(
                FollowResponseNode("/brokers/ids/1", b"{}", 3),
                FollowResponseNode("/gone", None, -1),
                FollowResponseNode("/empty", b"", 0),
                FollowResponseNode("/é", b"\0\xff", 2**31 - 1),
            ),
        )
    ),
    "00000018fffffffe0029ffffffff0000000000000000000100000000": cluster_changes.pack_response(
        FollowResponse(correlation_id=-2, error_code=41)
    ),
    "0000002703e9000000000007000862726f6b65722d31000831302e302e302e310000000700016672616d65": (
        controller_requests.pack_forward(
            b"\0\1frame", correlation_id=7, client_id="broker-1", client_host="10.0.0.1"
        )
    ),
    "0000001c00000008000000000003000001000000000000000006616e73776572": controller_requests.pack_forwarded(
        ForwardResponse(correlation_id=8, controller_epoch=3, next_number=1 << 40, frame=b"answer")
    ),
    "00000016000000090029ffffffff000000000000000000000000": controller_requests.pack_forwarded(
        ForwardResponse(correlation_id=9, error_code=41)
    ),
    "0000001e03ea000000000001000862726f6b65722d32000000020000000000000005": controller_requests.pack_leave(
        LeaveRequest(correlation_id=1, client_id="broker-2", broker_id=2, broker_epoch=5)
    ),
    "0000000a00000001000000000004": controller_requests.pack_left(LeaveResponse(correlation_id=1, left=4)),
}


@pytest.mark.parametrize("golden", FRAMES)
def test_the_bytes_are_those_of_the_first_release(golden: str) -> None:
    assert FRAMES[golden].hex() == golden


def test_another_api_or_version_is_refused_with_a_hint() -> None:
    leave = bytearray(
        controller_requests.pack_leave(
            LeaveRequest(correlation_id=1, client_id="b", broker_id=1, broker_epoch=1)
        )
    )
    with pytest.raises(InvalidRequest, match="same release"):
        controller_requests.parse_forward(memoryview(leave)[4:])
    leave[7] = 1
    with pytest.raises(InvalidRequest, match="API 1002 version 1 came where version 0"):
        controller_requests.parse_leave(memoryview(leave)[4:])
