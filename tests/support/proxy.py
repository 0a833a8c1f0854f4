"""A TCP proxy on loopback, in the test's own event loop, that loses traffic on request.

Left out: slowness; it would make tests slow.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """Passes bytes on to a port of 127.0.0.1. Make it with `proxy_to`."""

    def __init__(self, target_port: int, *, lost_message: int = 0) -> None:
        self.port = 0
        # The connection ends instead of this message, counted from 1 in both directions; 0 for none.
        self.lost_message = lost_message
        # How many messages (with their length in four bytes) have arrived while one is to be lost.
        self.messages = 0
        # Set when bytes of an answer were dropped.
        self.lost_an_answer = asyncio.Event()
        self._target_port = target_port
        self._loses_answers = False
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def is_used(self) -> bool:
        """Whether there is a connection at the moment."""
        return bool(self._connections)

    async def mend(self) -> None:
        """Take connections (again), on the same port as before."""
        self._loses_answers = False
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections and take no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        # In two steps more the ways and the sockets are closed.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def lose_answers(self) -> None:
        """From now on requests arrive and answers do not."""
        self.lost_an_answer.clear()
        self._loses_answers = True

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        ends = [writer]
        ways: list[asyncio.Task[None]] = []
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
            ends.append(back)
            ways.append(asyncio.create_task(self._pump(reader, back, is_answer=False)))
            ways.append(asyncio.create_task(self._pump(there, writer, is_answer=True)))
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            pass  # no peer, or blocked
        finally:
            for way in ways:
                way.cancel()
            for end in ends:
                end.transport.abort()
            self._connections.discard(task)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        # An end that breaks off ends the way to the other one, too.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while data := await self._read(source):
                if is_answer and self._loses_answers:
                    self.lost_an_answer.set()
                    continue
                sink.write(data)
                await sink.drain()

    async def _read(self, source: asyncio.StreamReader) -> bytes:
        """The next bytes to pass on; none at the end, or instead of the message that is to be lost."""
        if not self.lost_message:
            return await source.read(65_536)
        size = await source.readexactly(4)
        message = await source.readexactly(int.from_bytes(size))
        if not self.lost_message:
            return size + message
        self.messages += 1
        return b"" if self.messages == self.lost_message else size + message


@asynccontextmanager
async def proxy_to(port: int, *, lost_message: int = 0) -> AsyncIterator[Proxy]:
    proxy = Proxy(port, lost_message=lost_message)
    await proxy.mend()
    try:
        yield proxy
    finally:
        await proxy.cut()
