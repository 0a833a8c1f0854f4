"""Requests to brokers from a coordinator or a leader: over a connection, or to this broker without one.

A broker that asks itself takes the same way as any other: the request's bytes go to the dispatcher. So its checks hold,
and a single node needs no connection to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from odradek.broker.replication.broker_transport import BrokerRequest, read_response
from odradek.broker.replication.inter_broker_client import InterBrokerClient
from odradek.foundation.errors import BrokerNotAvailable
from odradek.network.connection import Connection, Dispatch
from odradek.network.pending import Pending

Response = TypeVar("Response")

_SIZE_BYTES = 4


class PeerTransport:
    """A `BrokerTransport`. `dispatch` gives this broker's own dispatcher, None before the broker listens."""

    def __init__(
        self,
        broker_id: int,
        client: InterBrokerClient,
        *,
        client_id: str,
        dispatch: Callable[[], Dispatch | None],
    ) -> None:
        self._broker_id = broker_id
        self._client = client
        self._client_id = client_id
        self._dispatch = dispatch
        self._connection = Connection(id=-1, listener_name="", peer=("localhost", 0))

    async def send(self, broker_id: int, request: BrokerRequest[Response]) -> Response:
        """Send a request and wait for its response. Raises as `InterBrokerClient.send`."""
        if broker_id != self._broker_id:
            return await self._client.send(broker_id, request)
        dispatch = self._dispatch()
        if dispatch is None:
            raise BrokerNotAvailable(f"broker {broker_id} does not listen yet")
        frame = request.pack(0, self._client_id)
        answer = dispatch(self._connection, memoryview(frame)[_SIZE_BYTES:])
        if isinstance(answer, Pending):
            answer = await answer
        if not isinstance(answer, bytes | bytearray | memoryview):
            raise BrokerNotAvailable(f"broker {broker_id} has no answer to its own request")
        return read_response(request, memoryview(answer)[_SIZE_BYTES:])

    def interrupt(self, broker_id: int) -> None:
        """Make the requests that wait for another broker raise ConnectionError."""
        self._client.interrupt(broker_id)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
