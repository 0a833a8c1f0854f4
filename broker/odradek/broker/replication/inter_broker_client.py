"""Connections to other brokers: opened at the first request, opened again when lost, to the image's addresses.

A client has one connection to each broker. When a broker returns with another address, or as another registration, the
next request goes there. Requests and attempts to connect that wait for a registration which has ended are given up at
once. A dead host answers nothing, and they would wait for their whole timeout.

Requests on one connection wait for each other, so callers whose requests may wait long have clients of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.broker.replication.broker_transport import BrokerRequest, Response, read_response
from odradek.foundation.errors import BrokerNotAvailable, FrameError, InvalidRequest
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.network.connection import Connection, Dispatch
from odradek.network.network import Network
from odradek.network.outbound import ConnectAttempt, OutboundConnection
from odradek.network.pending import Pending

_SIZE_BYTES = 4

# Host, port and epoch of a broker's registration.
_Address = tuple[str, int, int]


class InterBrokerClient:
    """One connection to each broker, which answers requests in the order in which they were sent."""

    def __init__(
        self,
        *,
        images: ImageHolder,
        network: Network,
        client_id: str,
        current_settings: Callable[[], Settings],
    ) -> None:
        self._images = images
        self._network = network
        self._client_id = client_id
        self._current_settings = current_settings
        # By broker: the connection, with what it was opened to.
        self._connections: dict[int, tuple[OutboundConnection, _Address]] = {}
        # By broker: the attempts to connect.
        self._connect_attempts: dict[int, tuple[ConnectAttempt, _Address]] = {}
        self._connecting: dict[int, asyncio.Lock] = {}
        self._unsubscribe = images.subscribe(self._image_changed)

    async def send(self, broker_id: int, request: BrokerRequest[Response]) -> Response:
        """Send a request and wait for its response.

        Raises BrokerNotAvailable, OSError, RequestTimedOut, FrameError or InvalidRequest. A response that cannot be
        read closes the connection: the two ends disagree.
        """
        connection = await self._connection(broker_id)
        frame = await connection.send_frame(
            lambda correlation_id: request.pack(correlation_id, self._client_id)
        )
        try:
            return read_response(request, frame)
        except (FrameError, InvalidRequest):
            connection.interrupt()
            raise

    def interrupt(self, broker_id: int) -> None:
        """Let the requests that wait for that broker raise ConnectionError."""
        known = self._connections.get(broker_id)
        if known is not None:
            known[0].interrupt()
        attempted = self._connect_attempts.get(broker_id)
        if attempted is not None:
            attempted[0].cancel()

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        for broker_id, (connection, opened_to) in self._connections.items():
            if not self._is_at(broker_id, opened_to):
                connection.interrupt()
        for broker_id, (attempt, dialled) in self._connect_attempts.items():
            if not self._is_at(broker_id, dialled):
                attempt.cancel()

    def _is_at(self, broker_id: int, address: _Address) -> bool:
        try:
            return self._address(broker_id) == address
        except BrokerNotAvailable:
            return False

    async def _connection(self, broker_id: int) -> OutboundConnection:
        # Of several requests at once the first one connects.
        async with self._connecting.setdefault(broker_id, asyncio.Lock()):
            address = self._address(broker_id)
            known = self._connections.get(broker_id)
            if known is not None:
                connection, opened_to = known
                if opened_to == address and not connection.is_lost:
                    return connection
                del self._connections[broker_id]
                await connection.close()
            connection = await self._connect(broker_id, address)
            self._connections[broker_id] = connection, address
            return connection

    async def _connect(self, broker_id: int, address: _Address) -> OutboundConnection:
        host, port, _ = address
        attempt = ConnectAttempt()
        self._connect_attempts[broker_id] = attempt, address
        try:
            connection = await attempt.connect(
                self._network,
                host=host,
                port=port,
                client_id=self._client_id,
                timeout_ms=self._current_settings().replica_socket_timeout_ms,
            )
        finally:
            del self._connect_attempts[broker_id]
        if not self._is_at(broker_id, address):
            # The image changed between the end of the attempt and now.
            connection.interrupt()
            raise ConnectionError(f"broker {broker_id} is no longer registered as it was at {host}:{port}")
        return connection

    def _address(self, broker_id: int) -> _Address:
        """Of a broker, by the listener that brokers use among themselves."""
        broker = self._images.current.brokers.get(broker_id)
        if broker is None:
            raise BrokerNotAvailable(f"broker {broker_id} is not registered.")
        listener = self._current_settings().listener_between_brokers
        endpoint = broker.endpoints.get(listener)
        if endpoint is None:
            raise BrokerNotAvailable(
                f"broker {broker_id} has no listener {listener}; set inter.broker.listener.name to one that all "
                "brokers have."
            )
        return *endpoint, broker.epoch

    async def close(self) -> None:
        """Close all; requests in flight raise ConnectionError."""
        self._unsubscribe()
        connections = [connection for connection, _ in self._connections.values()]
        self._connections.clear()
        await asyncio.gather(*(connection.close() for connection in connections))


class InterBrokerClientPool:
    """The clients of a broker's fetchers, by the fetcher's number; bounded by num.replica.fetchers."""

    def __init__(self, make_client: Callable[[], InterBrokerClient]) -> None:
        self._make_client = make_client
        self._clients: dict[int, InterBrokerClient] = {}

    def client(self, number: int) -> InterBrokerClient:
        """The client of the fetchers with this number, one for each leader."""
        found = self._clients.get(number)
        if found is None:
            found = self._clients[number] = self._make_client()
        return found

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients.values()))


class PeerTransport:
    """Requests to brokers from a coordinator or a leader: over a connection, or to this broker without one.

    A broker that asks itself takes the same way as any other: the request's bytes go to the dispatcher. So its checks
    hold, and a single node needs no connection to itself.

    A `BrokerTransport`. `dispatch` gives this broker's own dispatcher, None before the broker listens.
    """

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
        await self._client.close()
