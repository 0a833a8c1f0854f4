"""Requests from one broker to another, and the interface that carries them.

A request packs its own frame and parses its own response. So one transport carries every kind: hand-packed fetches,
and any message of the protocol (`MessageRequest`). `inter_broker_client` has the connections behind it.

What it leaves out: versions are the sender's choice; nothing is negotiated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.foundation.errors import FrameError, InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response_body, encode_request
from odradek.wire.protocol.framing import parse_response_header
from odradek.wire.protocol.messages import request as message_of

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage

Response = TypeVar("Response")
Response_co = TypeVar("Response_co", covariant=True)


class BrokerRequest(Protocol[Response_co]):
    """One request, and how its response is read."""

    def pack(self, correlation_id: int, client_id: str) -> bytes:
        """The whole frame."""
        ...

    def parse(self, frame: memoryview) -> Response_co:
        """Read the response's frame, from its correlation id on. Raises FrameError or InvalidRequest."""
        ...


class BrokerTransport(Protocol):
    """Carries requests to brokers. One broker answers them in the order in which they were sent."""

    async def send(self, broker_id: int, request: BrokerRequest[Response]) -> Response:
        """Send a request and wait for its response. Raises OSError, RequestError or FrameError."""
        ...

    def interrupt(self, broker_id: int) -> None:
        """Requests that wait for that broker's responses may raise OSError at once."""
        ...


def read_response(request: BrokerRequest[Response], frame: memoryview) -> Response:
    """The response in `frame`, from its correlation id on. Raises FrameError or InvalidRequest, and nothing else.

    A peer of another release may send values that are not known here. Tasks that retry after these two errors must not
    end by a third.
    """
    try:
        return request.parse(frame)
    except (FrameError, InvalidRequest):
        raise
    except Exception as failure:
        raise FrameError(f"a response of {len(frame)} bytes cannot be read: {failure!r}") from failure


class MessageRequest(NamedTuple):
    """A message of the protocol, as `wire.protocol.messages` makes it; the response is one too."""

    api_key: ApiKey
    api_version: int
    message: object

    def pack(self, correlation_id: int, client_id: str) -> bytes:
        return encode_request(self.api_key, self.api_version, correlation_id, client_id, self.message)

    def parse(self, frame: memoryview) -> AnyMessage:
        _, position = parse_response_header(frame, api_key=self.api_key, api_version=self.api_version)
        return decode_response_body(self.api_key, self.api_version, frame, position)


async def list_offset(
    transport: BrokerTransport,
    broker_id: int,
    partition: TopicPartition,
    timestamp_ms: int,
    *,
    api_version: int,
    replica_id: int,
    leader_epoch: int = -1,
) -> tuple[int, int]:
    """(error code, offset) that a broker answers for a time or a special value. Raises as `BrokerTransport.send`."""
    topic, number = partition
    asked = {"partition_index": number, "current_leader_epoch": leader_epoch, "timestamp": timestamp_ms}
    message = message_of(
        ApiKey.LIST_OFFSETS,
        api_version,
        replica_id=replica_id,
        topics=[{"name": topic, "partitions": [asked]}],
    )
    response = await transport.send(broker_id, MessageRequest(ApiKey.LIST_OFFSETS, api_version, message))
    (answered,) = response.topics
    (answer,) = answered.partitions
    return int(answer.error_code), int(answer.offset)
