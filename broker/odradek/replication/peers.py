"""Connections to other brokers for fetchers: opened when first needed, opened anew when lost, found by the image.

A channel has one connection to each broker. When a broker comes back with another address, or as another registration,
the next request goes there; one that still tries to reach the old address can be given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.cluster.image import ImageHolder
from odradek.foundation.errors import BrokerNotAvailable
from odradek.foundation.settings import Settings
from odradek.protocol.api import ApiKey
from odradek.transport.dialling import Dialling
from odradek.transport.network import Network
from odradek.transport.outbound import OutboundConnection


class Channel:
    """One connection to each broker; requests to one broker are answered in order."""

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
        # By broker: the connection, and host, port and epoch that it was opened to.
        self._connections: dict[int, tuple[OutboundConnection, tuple[str, int, int]]] = {}
        # By broker, those that are being opened.
        self._dialling: dict[int, Dialling] = {}

    async def send(self, broker_id: int, api: ApiKey, version: int, message: Any) -> Any:
        """The answer's message. Raises BrokerNotAvailable, OSError, RequestTimedOut, FrameError or InvalidRequest."""
        connection = await self._connection(broker_id)
        return await connection.send(api, version, message)

    async def send_frame(self, broker_id: int, pack: Callable[[int], bytes]) -> memoryview:
        """The answer to the frame that `pack(correlation id)` makes, from its correlation id on. Raises as `send`."""
        connection = await self._connection(broker_id)
        return await connection.send_frame(pack)

    def interrupt(self, broker_id: int) -> None:
        """Give up the requests that wait for that broker: they raise ConnectionError."""
        known = self._connections.get(broker_id)
        if known is not None:
            known[0].interrupt()
        dialling = self._dialling.get(broker_id)
        if dialling is not None:
            dialling.give_up()

    async def _connection(self, broker_id: int) -> OutboundConnection:
        place = self._place(broker_id)
        known = self._connections.get(broker_id)
        if known is not None:
            connection, opened_to = known
            if opened_to == place and not connection.is_lost:
                return connection
            del self._connections[broker_id]
            await connection.close()
        host, port, _ = place
        timeout_ms = self._current_settings().replica_socket_timeout_ms
        dialling = self._dialling[broker_id] = Dialling()
        try:
            connection = await dialling.connect(
                self._network, host=host, port=port, client_id=self._client_id, timeout_ms=timeout_ms
            )
        finally:
            if self._dialling.get(broker_id) is dialling:
                del self._dialling[broker_id]
        self._connections[broker_id] = connection, place
        return connection

    def _place(self, broker_id: int) -> tuple[str, int, int]:
        """Host, port and epoch of a broker, by the listener that brokers use among themselves."""
        broker = self._images.current.brokers.get(broker_id)
        if broker is None:
            raise BrokerNotAvailable(f"broker {broker_id} is not registered.")
        settings = self._current_settings()
        listener = settings.inter_broker_listener_name or settings.security_inter_broker_protocol
        address = broker.endpoints.get(listener.upper())
        if address is None:
            raise BrokerNotAvailable(
                f"broker {broker_id} has no listener {listener}; set inter.broker.listener.name to one that all "
                "brokers have."
            )
        return *address, broker.epoch

    async def close(self) -> None:
        """Close all; requests under way raise ConnectionError."""
        connections = [connection for connection, _ in self._connections.values()]
        self._connections.clear()
        await asyncio.gather(*(connection.close() for connection in connections))


class Peers:
    """The channels of a broker, by number."""

    def __init__(self, make_channel: Callable[[], Channel]) -> None:
        self._make_channel = make_channel
        self._channels: dict[int, Channel] = {}

    def channel(self, number: int) -> Channel:
        """The way that the fetchers of one number use."""
        found = self._channels.get(number)
        if found is None:
            found = self._channels[number] = self._make_channel()
        return found

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))
