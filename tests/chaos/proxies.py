"""Network partitions between named processes where there are no namespaces: a TCP proxy in front of each process.

All processes get the proxy's port. The proxy asks the system which process has the other end of a connection, but only
while the connection may be blocked. An answer takes milliseconds, and clients connect many times a second to a process
that is away. It asks again when a process gets its name, since that one may have connected before. While a direction is
blocked its bytes are dropped. A connection that lost some is closed when the direction is unblocked, since later bytes
would make no sense without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.network import CLIENTS, Endpoint
from tests.support.broker_process import free_port
from tests.support.polling import SECONDS_MAX


@dataclass(eq=False)
class _Caller:
    """The other end of a connection to the process `target`: its ports, and its process when that was asked for."""

    port: int
    port_of_proxy: int
    target: str
    name: str | None = None


class Proxies:
    """A `network.Network` of proxies, which run in a thread of their own."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._cuts: set[tuple[str | None, str | None]] = set()
        self._broken: dict[tuple[str | None, str | None], set[asyncio.Event]] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._callers: set[_Caller] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def add(self, name: str, port: int) -> Endpoint:
        target_port = free_port()
        proxy_port = self._wait(self._serve(name, target_port))
        return Endpoint(f"127.0.0.1:{target_port}", f"127.0.0.1:{proxy_port}")

    def wrapper(self, name: str) -> Sequence[str]:
        return ()

    def runs_as(self, name: str, pid: int) -> None:
        async def name_callers() -> None:
            self._pids[name] = pid
            for caller in self._callers:
                if caller.name == CLIENTS:
                    caller.name = self._owner_of(caller)

        self._wait(name_callers())

    def cut(self, source: str, target: str) -> None:
        async def cut_off() -> None:
            self._cuts.add((source, target))
            for caller in self._callers:
                self._name_where_cut(caller)

        self._wait(cut_off())

    def mend(self, source: str, target: str) -> None:
        async def break_off() -> None:
            self._cuts.discard((source, target))
            for broken in self._broken.pop((source, target), ()):
                broken.set()

        self._wait(break_off())

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

        self._wait(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_MAX)
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS_MAX)

    async def _serve(self, name: str, target_port: int) -> int:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await self._pass_on(name, target_port, reader, writer)
            finally:
                self._connections.discard(task)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _pass_on(
        self, name: str, target_port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # Nothing is awaited here, so no process gets its name between the question and the entry.
        caller = _Caller(writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1], name)
        self._name_where_cut(caller)
        self._callers.add(caller)
        broken = asyncio.Event()
        ends = [writer]
        ways: list[asyncio.Task[Any]] = [asyncio.create_task(broken.wait())]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", target_port)
            ends.append(back)
            ways.append(asyncio.create_task(self._pump(reader, back, lambda: (caller.name, name), broken)))
            ways.append(asyncio.create_task(self._pump(there, writer, lambda: (name, caller.name), broken)))
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            pass  # no process listens there, or all ends
        finally:
            self._callers.discard(caller)
            for way in ways:
                way.cancel()
            for end in ends:
                end.transport.abort()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        direction: Callable[[], tuple[str | None, str | None]],
        broken: asyncio.Event,
    ) -> None:
        # A closed end closes the other direction, too; so an end behind a block must not be closed.
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                if (way := direction()) in self._cuts:
                    self._broken.setdefault(way, set()).add(broken)
                    continue
                sink.write(data)
                await sink.drain()
        if (way := direction()) in self._cuts:
            self._broken.setdefault(way, set()).add(broken)
            await broken.wait()

    def _name_where_cut(self, caller: _Caller) -> None:
        if caller.name is None and any(caller.target in cut for cut in self._cuts):
            caller.name = self._owner_of(caller)

    def _owner_of(self, caller: _Caller) -> str:
        """The process that has this socket; `CLIENTS` when it is none of the named."""
        inode = inode_of(caller.port, caller.port_of_proxy)
        for name, pid in list(self._pids.items()):
            # It may have ended since, and its descriptors come and go.
            with contextlib.suppress(OSError):
                for descriptor in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        if os.readlink(f"/proc/{pid}/fd/{descriptor}") == f"socket:[{inode}]":
                            return name
        return CLIENTS


def inode_of(port: int, port_of_proxy: int) -> str:
    """Of the socket that connected to the proxy from this port of 127.0.0.1, from which others may be reached, too."""
    ends = [f"0100007F:{port:04X}", f"0100007F:{port_of_proxy:04X}"]
    with open("/proc/net/tcp") as table:
        for line in table:
            fields = line.split()
            if fields[1:3] == ends:
                return fields[9]
    return ""
