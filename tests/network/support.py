"""A listener on a network in memory, with a dispatcher that tests steer by the first byte of a frame."""

from __future__ import annotations

import asyncio
import inspect
import random
import struct
from collections.abc import Callable
from typing import Any

from odradek.network.connection import Connection
from odradek.network.flow_control import Admission
from odradek.network.listener import Listener
from odradek.network.pending import Pending
from odradek.wire.protocol.framing import FrameReader
from tests.support.framing import feed
from tests.support.loop import stop_at_end
from tests.support.network import MemoryNetwork, MemoryTransport


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def started(listener: Listener) -> Listener:
    """Start it; it closes when the story has passed."""
    await listener.start()
    stop_at_end(listener.close)
    return listener


class Peer(asyncio.Protocol):
    """A client that collects what it is sent."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self._frames: list[bytes] = []
        self._reader = FrameReader(100_000_000)
        self.is_lost = asyncio.Event()
        self._came = asyncio.Event()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self._frames += [bytes(frame) for frame in feed(self._reader, data)]
        self._came.set()

    def connection_lost(self, failure: Exception | None) -> None:
        self.is_lost.set()
        self._came.set()

    def send(self, *bodies: bytes) -> None:
        self.transport.write(b"".join(framed(body) for body in bodies))

    async def frames(self, count: int) -> list[bytes]:
        """The first `count` frames, when they are there; fewer when the connection ended before."""
        while len(self._frames) < count and not self.is_lost.is_set():
            self._came.clear()
            await self._came.wait()
        return self._frames[:count]


def _as_answer(result: Any) -> Any:
    """Futures and coroutines as pending answers."""
    return Pending(result) if inspect.isawaitable(result) and not isinstance(result, Pending) else result


class Stage:
    """A network, a listener named CLIENTS on the host "broker", and clients."""

    def __init__(
        self,
        dispatch: Callable[[Connection, memoryview], Any],
        *,
        seed: int = 1,
        connections_max: int = 100,
        connections_per_ip_max: int = 100,
        socket_bytes: int = 64 * 1024,
        **settings: Any,
    ) -> None:
        self.network = MemoryNetwork(random.Random(seed), socket_bytes=socket_bytes)
        self.admission = Admission(
            connections_max=connections_max, connections_per_ip_max=connections_per_ip_max
        )
        self.listener = Listener(
            name="CLIENTS",
            host="",
            port=9092,
            network=self.network.at("broker"),
            dispatch=lambda connection, frame: _as_answer(dispatch(connection, frame)),
            admission=self.admission,
            **settings,
        )

    async def __aenter__(self) -> Stage:
        await self.listener.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.listener.close(grace_seconds=1)

    async def peer(self, host: str = "client") -> Peer:
        _, peer = await self.network.at(host).connect(Peer, host="broker", port=9092)
        return peer  # type: ignore[no-any-return]

    def far_end(self, peer: Peer) -> MemoryTransport:
        return peer.transport.other  # type: ignore[no-any-return]


class MemoryFile:
    """A log file in memory; `is_cached` says whether reading it would wait for a device."""

    def __init__(self, content: bytes, *, is_cached: bool = True) -> None:
        self.content = content
        self.is_cached = is_cached
        self.reads = 0

    def pread(self, position: int, size: int) -> bytes:
        self.reads += 1
        return self.content[position : position + size]

    def pread_cached(self, position: int, size: int) -> bytes | None:
        return self.pread(position, size) if self.is_cached else None

    def fileno(self) -> int:
        return -1


class MemorySlice:
    """A slice of such a file."""

    def __init__(self, file: MemoryFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        return self.file.pread(self.position, self.size)

    def read_cached(self) -> bytes | None:
        return self.file.pread_cached(self.position, self.size)
