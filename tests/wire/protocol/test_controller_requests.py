"""What brokers ask the controller in our own words, to bytes and back; what cannot be read is refused."""

import pytest

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol import controller_requests as requests
from odradek.wire.protocol.controller_requests import ForwardResponse, LeaveRequest, LeaveResponse
from odradek.wire.protocol.own_requests import api_key_of


def _body(frame: bytes) -> memoryview:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return memoryview(frame)[4:]


def test_a_forwarded_request_is_read_back() -> None:
    frame = requests.pack_forward(
        b"\0\1frame", correlation_id=7, client_id="broker-1", client_host="10.0.0.1"
    )
    assert api_key_of(_body(frame)) == requests.FORWARD
    read = requests.parse_forward(_body(frame))
    assert (read.correlation_id, read.client_id, read.client_host) == (7, "broker-1", "10.0.0.1")
    assert bytes(read.frame) == b"\0\1frame"


def test_its_answer_has_the_end_of_the_change_log() -> None:
    frame = requests.pack_forwarded(ForwardResponse(8, 0, 3, 1 << 40, b"answer"))
    assert requests.parse_forwarded(_body(frame)) == (8, 0, 3, 1 << 40, b"answer")
    refused = requests.pack_forwarded(ForwardResponse(correlation_id=9, error_code=41))
    assert requests.parse_forwarded(_body(refused)) == (9, 41, -1, 0, b"")


def test_a_broker_that_leaves_learns_what_it_still_leads() -> None:
    frame = requests.pack_leave(LeaveRequest(1, "broker-2", broker_id=2, broker_epoch=5))
    assert api_key_of(_body(frame)) == requests.LEAVE
    assert requests.parse_leave(_body(frame)) == (1, "broker-2", 2, 5)
    assert requests.parse_left(_body(requests.pack_left(LeaveResponse(correlation_id=1, left=4)))) == (
        1,
        0,
        4,
    )


@pytest.mark.parametrize("cut", [1, 5, 12, 20])
def test_a_truncated_request_is_refused(cut: int) -> None:
    forward = requests.pack_forward(b"frame of a client", correlation_id=7, client_id="b", client_host="h")
    with pytest.raises(InvalidRequest):
        requests.parse_forward(_body(forward)[:-cut])
    leave = requests.pack_leave(LeaveRequest(1, "b", broker_id=2, broker_epoch=5))
    with pytest.raises(InvalidRequest):
        requests.parse_leave(_body(leave)[:-cut])


def test_a_truncated_answer_is_refused() -> None:
    frame = requests.pack_forwarded(ForwardResponse(8, 0, 3, 9, b"answer"))
    for length in range(len(frame) - 4):
        with pytest.raises(InvalidRequest):
            requests.parse_forwarded(_body(frame)[:length])
    with pytest.raises(InvalidRequest):
        requests.parse_left(memoryview(b"\0\0\0\1"))


def test_one_kind_of_request_is_not_taken_for_the_other() -> None:
    leave = requests.pack_leave(LeaveRequest(1, "b", broker_id=2, broker_epoch=5))
    with pytest.raises(InvalidRequest, match="same release"):
        requests.parse_forward(_body(leave))
    assert api_key_of(memoryview(b"\0")) == -1
