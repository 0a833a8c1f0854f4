"""A broker's connection to the active controller; it reconnects when another controller becomes active.

A request is retried until a controller accepts it or its time is up. It is also sent again after a lost connection, as
Apache Kafka's brokers do. The controller may then carry it out twice, and the second answer says that it was done
already. Answers on one connection have the order of their requests. So requests that may wait long have a separate
channel.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from odradek.broker.process.controller_location import ControllerLocation
from odradek.foundation.errors import FrameError, InvalidRequest, NotController, RequestTimedOut
from odradek.foundation.limits import CONTROLLER_RETRY_MS_MAX, CONTROLLER_RETRY_MS_MIN
from odradek.metadata.image.nodes import ControllerAddress
from odradek.network.network import Network
from odradek.network.outbound import ConnectAttempt, OutboundConnection

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_CONNECT_MS_MAX = 5_000


class ControllerChannel:
    """One connection at a time. `close` releases it."""

    def __init__(
        self, location: ControllerLocation, network: Network, *, client_id: str, rng: random.Random
    ) -> None:
        self._location = location
        self._network = network
        self._client_id = client_id
        self._rng = rng
        self._connection: OutboundConnection | None = None
        self._connected_to: ControllerAddress | None = None
        self._connecting = asyncio.Lock()
        self._connect_attempt = ConnectAttempt()
        self._dialled: ControllerAddress | None = None
        self._moved = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self._unsubscribe = location.subscribe(self._location_changed)
        self.last_failure = ""
        """Why the last attempt to reach a controller failed; empty once one has answered."""

    async def ask(
        self,
        exchange: Callable[[OutboundConnection], Awaitable[Answer]],
        *,
        is_refused: Callable[[Answer], bool],
        wait_ms_max: int,
    ) -> Answer:
        """The answer that `exchange` gets from the first controller that does not refuse it (`is_refused`).

        Raises NotController when there is none for `wait_ms_max`.
        """
        pause_ms = float(CONTROLLER_RETRY_MS_MIN)
        reason = "none is elected"
        try:
            async with asyncio.timeout(wait_ms_max / 1000):
                while True:
                    self._moved.clear()
                    try:
                        connection = await self._get_connection()
                        if connection is not None:
                            answer = await exchange(connection)
                            if not is_refused(answer):
                                self.last_failure = ""
                                if self._connected_to == self._location.address:
                                    self._location.note_answer()
                                return answer
                            reason = (
                                f"controller {self._connected_to and self._connected_to.id} is not active"
                            )
                    except (OSError, RequestTimedOut, FrameError, InvalidRequest) as error:
                        reason = self.last_failure = str(error)
                    await self._pause(pause_ms)
                    pause_ms = min(2 * pause_ms, CONTROLLER_RETRY_MS_MAX)
        except TimeoutError:
            raise NotController(
                f"No controller could be asked within {wait_ms_max} ms: {reason}. Try again."
            ) from None

    async def close(self) -> None:
        """Close. Requests in progress end with NotController once their time is up; cancel them first."""
        self._unsubscribe()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        for task in tuple(self._closing):
            await task

    async def _get_connection(self) -> OutboundConnection | None:
        """A connection to the controller's known address; None while none is known. Raises OSError."""
        async with self._connecting:
            address = self._location.address
            known = self._connection
            if known is not None and not known.is_lost and address in (self._connected_to, None):
                return known
            if address is None:
                return None
            self._release_connection()
            self._dialled = address
            try:
                connection = await self._connect_attempt.connect(
                    self._network,
                    host=address.host,
                    port=address.port,
                    client_id=self._client_id,
                    timeout_ms=_CONNECT_MS_MAX,
                )
            except ConnectionRefusedError:
                self._location.note_refused(address)
                raise
            if self._location.address not in (address, None):
                # The location changed between the end of the attempt and now.
                connection.interrupt()
                raise ConnectionError(f"controller {address.id} is no longer active")
            self._connection = connection
            self._connected_to = address
            return connection

    async def _pause(self, pause_ms: float) -> None:
        """Wait until another controller is known, or for about the given time."""
        try:
            async with asyncio.timeout(self._rng.uniform(0.5, 1.0) * pause_ms / 1000):
                await self._moved.wait()
        except TimeoutError:
            return

    def _location_changed(self) -> None:
        self._moved.set()
        address = self._location.address
        if address is None:
            return
        if address != self._connected_to:
            # Requests that wait there are sent to the next controller instead.
            self._release_connection()
        if address != self._dialled:
            self._connect_attempt.cancel()

    def _release_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            task = asyncio.get_running_loop().create_task(connection.close(), name="controller-channel/close")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
