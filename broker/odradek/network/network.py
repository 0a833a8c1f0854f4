"""The network as an object: the real one here, one in memory with faults in the tests.

This module calls accept() itself and does not use `loop.create_server`. When file descriptors run out, uvloop's server
closes the listener, and asyncio's would spin. Here accepting pauses, and connections wait in the kernel's queue. The
same pause holds back connections beyond max.connections.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from odradek.foundation.limits import (
    ACCEPT_RETRY_PAUSE_SECONDS,
    ACCEPTS_PER_TURN_MAX,
    CONNECTIONS_HELD_MAX,
    LISTEN_BACKLOG_DEFAULT,
)
from odradek.foundation.listening import advise_on_address, is_elsewhere
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.network.flow_control import Admission, Arrive

logger = logging.getLogger(__name__)

# Makes the protocol object of an accepted connection from the address under which it was admitted.
InboundFactory = Callable[[str], asyncio.BaseProtocol]
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

_NO_SUCH_FAMILY: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_OUT_OF_RESOURCES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class ListeningSockets(Protocol):
    """Sockets that accept connections."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each socket, with the port that is bound."""
        ...

    def accept(self) -> None:
        """Begin to accept; until then new connections wait in the kernel's queue."""
        ...

    async def close(self) -> None:
        """Accept no more; accepted connections stay open."""
        ...


class Network(Protocol):
    """Accepts and opens connections."""

    async def listen(
        self,
        protocol_factory: InboundFactory,
        *,
        host: str,
        port: int,
        admission: Admission,
        backlog: int = LISTEN_BACKLOG_DEFAULT,
        arrive: Arrive | None = None,
    ) -> ListeningSockets:
        """Listen on every address of `host` ("" for all of the machine), port 0 for a free one.

        Connections are accepted once `ListeningSockets.accept` is called.

        A connection that was admitted must be released by its protocol when it is lost. `arrive` is asked before it is
        admitted. Raises OSError.
        """
        ...

    async def connect(
        self, protocol_factory: ProtocolFactory, *, host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        """(transport, protocol) of a new connection. Raises OSError."""
        ...


class SystemNetwork:
    """TCP over the running event loop.

    `send_buffer_bytes` and `receive_buffer_bytes` size the kernel's buffers of accepted connections
    (socket.send.buffer.bytes, socket.receive.buffer.bytes); -1 leaves them to the kernel.
    """

    def __init__(self, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes

    async def listen(
        self,
        protocol_factory: InboundFactory,
        *,
        host: str,
        port: int,
        admission: Admission,
        backlog: int = LISTEN_BACKLOG_DEFAULT,
        arrive: Arrive | None = None,
    ) -> ListeningSockets:
        sockets = await self.bind(host=host, port=port, backlog=backlog)
        return _SystemListeningSockets(sockets, protocol_factory, admission, self._send_buffer_bytes, arrive)

    async def bind(
        self, *, host: str, port: int, backlog: int = LISTEN_BACKLOG_DEFAULT
    ) -> list[socket.socket]:
        """The sockets that listen on every address of `host`, as `listen` has them. Raises OSError."""
        try:
            infos = await asyncio.get_running_loop().getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except socket.gaierror as failure:
            raise OSError(
                failure.errno,
                f"cannot listen on {host}:{port}: {failure.strerror}; {_advise_on_listener(failure)}",
            ) from failure
        sockets: list[socket.socket] = []
        try:
            for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
                if sockets and port == 0:
                    address = (address[0], sockets[0].getsockname()[1], *address[2:])
                listening = self._socket(family, address, backlog, is_only=not host and bool(sockets))
                if listening is not None:
                    sockets.append(listening)
        except OSError:
            for opened in sockets:
                opened.close()
            raise
        return sockets

    def _socket(
        self, family: int, address: tuple[object, ...], backlog: int, *, is_only: bool
    ) -> socket.socket | None:
        try:
            listening = socket.create_server(address, family=family, backlog=backlog)
        except OSError as failure:
            # A machine without IPv6 still resolves the wildcard to it.
            if is_only and failure.errno in _NO_SUCH_FAMILY:
                return None
            raise OSError(
                failure.errno,
                f"cannot listen on {address[0]}:{address[1]}: {os.strerror(failure.errno or 0)}; "
                f"{_advise_on_listener(failure)}",
            ) from failure
        listening.setblocking(False)
        if self._receive_buffer_bytes >= 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        return listening

    async def connect(
        self, protocol_factory: ProtocolFactory, *, host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        return await asyncio.get_running_loop().create_connection(protocol_factory, host, port)


def _advise_on_listener(failure: OSError) -> str:
    advice = advise_on_address(failure)
    return f"{advice}. Clients may use another, by advertised.listeners" if is_elsewhere(failure) else advice


class SharingNetwork(SystemNetwork):
    """As `SystemNetwork`; each listener also accepts what comes to sockets that other processes listen at too.

    `shared` are these sockets, a row for each call of `listen` in the order of the calls.
    """

    def __init__(
        self,
        shared: Iterable[Sequence[socket.socket]],
        *,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        super().__init__(send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes)
        self._shared = iter(shared)

    async def bind(
        self, *, host: str, port: int, backlog: int = LISTEN_BACKLOG_DEFAULT
    ) -> list[socket.socket]:
        own = await super().bind(host=host, port=port, backlog=backlog)
        return [*own, *next(self._shared, ())]


class _SystemListeningSockets:
    """Listening sockets on the event loop."""

    def __init__(
        self,
        sockets: list[socket.socket],
        protocol_factory: InboundFactory,
        admission: Admission,
        send_buffer_bytes: int,
        arrive: Arrive | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._protocol_factory = protocol_factory
        self._admission = admission
        self._send_buffer_bytes = send_buffer_bytes
        self._arrive = arrive
        # Accepted too early, and not yet admitted. Until then no other is accepted.
        self._waiting: tuple[socket.socket, str] | None = None
        # Refused, to be closed later: the oldest first.
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        self._is_accepting = False
        self._is_closed = False
        self._connecting: set[asyncio.Task[object]] = set()
        self._lines = RateLimitedLog(logger, "connections that were not accepted", now=self._loop.time)

    def accept(self) -> None:
        self._resume()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [listening.getsockname()[:2] for listening in self._sockets]

    async def close(self) -> None:
        self._pause()
        self._is_closed = True
        for listening in self._sockets:
            listening.close()
        if self._waiting is not None:
            self._waiting[0].close()
            self._waiting = None
        for held in list(self._held):
            self._let_go(held)
        if self._connecting:
            # Not cancelled: each ends in the next turn, as a connection that its protocol owns.
            await asyncio.wait(self._connecting)

    def _resume(self) -> None:
        if self._is_accepting or self._is_closed:
            return
        self._is_accepting = True
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _pause(self) -> None:
        if not self._is_accepting:
            return
        self._is_accepting = False
        for listening in self._sockets:
            self._loop.remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            if not self._is_accepting:
                return
            if self._admission.is_full:
                self._lines.warning("max.connections is reached; further connections wait to be accepted")
                self._pause()
                self._admission.on_next_release(self._resume)
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                self._accept_failed(failure)
                return
            early = None if self._arrive is None else self._arrive(address[0])
            if early is None:
                self._admit_socket(accepted, address[0])
            else:
                self._came_early(accepted, address[0], *early)

    def _came_early(self, accepted: socket.socket, ip: str, seconds: float, is_refused: bool) -> None:
        if not is_refused:
            self._pause()
            self._waiting = accepted, ip
            self._loop.call_later(seconds, self._end_wait)
            return
        # Held, or a client that tries again at once would keep the loop busy. Their number is bounded for the same end.
        if len(self._held) >= CONNECTIONS_HELD_MAX:
            self._let_go(next(iter(self._held)))
        self._held[accepted] = self._loop.call_later(seconds, self._let_go, accepted)

    def _let_go(self, held: socket.socket) -> None:
        self._held.pop(held).cancel()
        held.close()

    def _end_wait(self) -> None:
        if self._waiting is None:
            return
        if self._admission.is_full:
            self._admission.on_next_release(self._end_wait)
            return
        (accepted, ip), self._waiting = self._waiting, None
        self._admit_socket(accepted, ip)
        self._resume()

    def _accept_failed(self, failure: OSError) -> None:
        if failure.errno in _OUT_OF_RESOURCES:
            self._lines.warning(
                "cannot accept a connection: %s; raise the limit of open files or lower max.connections",
                failure.strerror,
            )
        else:
            self._lines.warning("cannot accept a connection: %s", failure.strerror)
        # Without a pause the loop would spin: the waiting connection keeps the socket readable.
        self._pause()
        self._loop.call_later(ACCEPT_RETRY_PAUSE_SECONDS, self._resume)

    def _admit_socket(self, accepted: socket.socket, ip: str) -> None:
        if not self._admission.admit(ip):
            self._lines.warning(
                "a connection from %s was closed: the address has max.connections.per.ip open already", ip
            )
            accepted.close()
            return
        try:
            accepted.setblocking(False)
            # uvloop sets it always, asyncio only for some sockets. Without it, small answers wait 40 ms.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._send_buffer_bytes >= 0:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            self._serve(accepted, ip)
        except OSError as failure:
            self._lines.warning("a connection from %s ended as it began: %s", ip, failure.strerror)
            accepted.close()
            self._admission.release(ip)

    def _serve(self, accepted: socket.socket, ip: str) -> None:
        task = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: self._protocol_factory(ip), accepted),
            name=f"accept/{ip}",
        )
        self._connecting.add(task)

        def end_handshake(task: asyncio.Task[object]) -> None:
            self._connecting.discard(task)
            failure = None if task.cancelled() else task.exception()
            if task.cancelled() or failure is not None:
                self._lines.warning("a connection from %s ended as it began: %s", ip, failure)
                accepted.close()
                self._admission.release(ip)

        task.add_done_callback(end_handshake)
