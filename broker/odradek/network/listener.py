"""One named listener: accepts connections, closes idle ones, and closes all of them at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from odradek.foundation.limits import LISTEN_BACKLOG_DEFAULT
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.tasks import TaskOwner
from odradek.network.connection import Dispatch, SendWatch
from odradek.network.flow_control import Admission, Arrive
from odradek.network.inbound import InboundConnection
from odradek.network.login_bounds import LoginBounds
from odradek.network.network import ListeningSockets, Network
from odradek.network.request_memory import RequestMemory
from odradek.network.request_turns import RequestTurns
from odradek.network.sendfile import KERNEL_SENDS
from odradek.wire.protocol.framing import receive_buffer

if TYPE_CHECKING:
    import ssl

    from odradek.network.handshake_turns import Handshakes
    from odradek.network.tls import TlsStream

logger = logging.getLogger(__name__)

# Ids are unique over all listeners of a process.
_ids: Final = count(1)

# An idle connection is ended at most this part of the idle time late.
_SWEEPS_PER_IDLE_TIME: Final = 10
_SWEEP_SECONDS_MAX: Final = 30.0
_SWEEP_SECONDS_MIN: Final = 0.01


class TlsListening(Protocol):
    """What keeps a listener's connections secret and names its clients; `security` implements it."""

    def context(self) -> ssl.SSLContext:
        """The context in force, for a new connection."""
        ...

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of a client's checked certificate in DER, or of none. Raises ValueError to refuse it."""
        ...

    def authorities(self, chain: Iterable[bytes]) -> frozenset[bytes]:
        """Whom the trust in a client rests on, by the checked chain of its certificate in DER."""
        ...

    def still_trusts(self, authorities: frozenset[bytes]) -> bool:
        """Whether one of them is trusted at present."""
        ...


class Listener:
    """Serves one address.

    `name` is the listener's in the settings; `dispatch` is called with every frame. `frame_bytes_max` is
    socket.request.max.bytes, `idle_ms_max` connections.max.idle.ms (negative for never). Slices that are
    not in the page cache are read on `executor` (None: the loop's own). With `sendfile` the kernel sends
    large slices where it can, but never below `tls`. `login` bounds clients until `dispatch` admits them.
    `memory` bounds requests together with those of the process's other listeners. `sends` learns of slow ones.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str,
        port: int,
        network: Network,
        dispatch: Dispatch,
        admission: Admission,
        frame_bytes_max: int = 104_857_600,
        idle_ms_max: int = 600_000,
        backlog: int = LISTEN_BACKLOG_DEFAULT,
        executor: Executor | None = None,
        sendfile: bool = KERNEL_SENDS,
        tls: TlsListening | None = None,
        login: LoginBounds | None = None,
        memory: RequestMemory | None = None,
        sends: SendWatch | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.name = name
        self.host = host
        self._port = port
        self._network = network
        self._dispatch = dispatch
        self._admission = admission
        self._frame_bytes_max = frame_bytes_max
        self._idle_seconds_max = idle_ms_max / 1000
        self._backlog = backlog
        self._executor = executor
        self._sendfile = sendfile and tls is None
        self._tls = tls
        self._login = login
        self._memory = memory or RequestMemory(-1, request_bytes_max=frame_bytes_max)
        self._sends = sends
        self._now = now
        self._turns: RequestTurns | None = None
        self._handshakes: Handshakes | None = None
        self._tls_receive_buffer: memoryview | None = None
        self._lines = RateLimitedLog(logger, f"connections to {name} that were cut off")
        self._tasks = TaskOwner(f"listener {name}")
        self._receive_buffer: memoryview | None = None
        self._listening: ListeningSockets | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._quiet_since: dict[InboundConnection, float] = {}
        self._on_empty: asyncio.Event = asyncio.Event()
        self._ended_requests = 0
        self._ended_bytes_in = 0
        self._ended_bytes_out = 0
        self.connections: dict[InboundConnection, None] = {}
        """In the order of acceptance, which is also the order of closing."""
        self.accepted = 0
        self.closed_idle = 0
        self.arrive: Arrive | None = None
        """Bounds how fast connections come; None while nothing is bounded."""
        self.on_connection_made: Callable[[InboundConnection], None] | None = None
        self.on_connection_lost: Callable[[InboundConnection], None] | None = None

    async def start(self, *, accepts: bool = True) -> None:
        """Listen and serve. Raises OSError when the address cannot be had.

        Without `accepts`, new connections wait until `accept` is called: the port is known before the server is ready.
        """
        self._receive_buffer = receive_buffer()
        self._turns = RequestTurns(self._now)
        if self._tls is not None:
            from odradek.network.handshake_turns import Handshakes
            from odradek.network.tls import tls_receive_buffer

            self._handshakes = Handshakes()
            self._tls_receive_buffer = tls_receive_buffer()
        self._listening = await self._network.listen(
            self._new_connection,
            host=self.host,
            port=self._port,
            admission=self._admission,
            backlog=self._backlog,
            arrive=lambda ip: None if self.arrive is None else self.arrive(ip),
        )
        if accepts:
            self.accept()
        if self._idle_seconds_max >= 0:
            self._schedule_sweep()

    def accept(self) -> None:
        """Accept waiting connections, and all later ones."""
        if self._listening is not None:
            self._listening.accept()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each socket."""
        return [] if self._listening is None else self._listening.addresses

    @property
    def port(self) -> int:
        """The port in use, also when 0 asked for a free one."""
        addresses = self.addresses
        return addresses[0][1] if addresses else self._port

    def totals(self) -> tuple[int, int, int]:
        """(requests, bytes in, bytes out) of all connections since the start."""
        return (
            self._ended_requests + sum(connection.requests for connection in self.connections),
            self._ended_bytes_in + sum(connection.bytes_in for connection in self.connections),
            self._ended_bytes_out + sum(connection.bytes_out for connection in self.connections),
        )

    async def stop_accepting(self) -> None:
        """Accept no more connections; open ones stay."""
        if self._listening is not None:
            await self._listening.close()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Stop accepting, give requests under way `grace_seconds` to be answered, then abort open connections."""
        await self.stop_accepting()
        if self._handshakes is not None:
            self._handshakes.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in list(self.connections):
            connection.close()
        await self._wait_until_empty(grace_seconds)
        for connection in list(self.connections):
            connection.abort()
        await self._wait_until_empty(None)
        await self._tasks.close()

    async def _wait_until_empty(self, seconds: float | None) -> None:
        if not self.connections:
            return
        self._on_empty.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._on_empty.wait()
        except TimeoutError:
            logger.info(
                "%d connections of %s had requests under way at the end", len(self.connections), self.name
            )

    @property
    def handshakes_failed(self) -> int:
        """TLS handshakes that failed since the start."""
        return 0 if self._handshakes is None else self._handshakes.failed

    @property
    def handshakes_completed(self) -> int:
        """TLS handshakes that succeeded since the start."""
        return 0 if self._handshakes is None else self._handshakes.completed

    def drop_untrusted(self) -> None:
        """End the connections of clients whose certificates are no longer trusted, at once."""
        tls = self._tls
        if tls is None:
            return
        for connection in list(self.connections):
            if connection.authorities is not None and not tls.still_trusts(connection.authorities):
                self._lines.warning("%r is ended: its certificate is not trusted any more", connection)
                connection.abort()

    def _new_connection(self, ip: str) -> asyncio.BufferedProtocol:
        connection = self._plain_connection(ip)
        if self._tls is None:
            return connection
        from odradek.network.tls import TlsStream

        assert self._tls_receive_buffer is not None
        return TlsStream(
            connection,
            self._tls.context(),
            on_end=self._handshake_ended,
            receive_buffer=self._tls_receive_buffer,
            turns=self._handshakes,
        )

    def _handshake_ended(self, stream: TlsStream, failure: Exception | None) -> None:
        """Name the client by its certificate, or give its place back."""
        assert self._tls is not None
        assert self._handshakes is not None
        connection = stream.app
        assert isinstance(connection, InboundConnection)
        if failure is None:
            try:
                self._name(connection, stream)
                self._handshakes.completed += 1
                return
            except ValueError as refused:
                failure = refused
                stream.abort()
        from odradek.network.tls import handshake_failure_text

        self._handshakes.failed += 1
        self._admission.release(connection.admitted_ip)
        self._lines.warning(
            "a TLS handshake of %s with %s failed: %s",
            connection.admitted_ip,
            self.name,
            handshake_failure_text(failure),
        )

    def _name(self, connection: InboundConnection, stream: TlsStream) -> None:
        """Name the client by its certificate. Raises ValueError to refuse it."""
        assert self._tls is not None
        certificate = stream.peer_certificate()
        connection.principal = self._tls.principal_of(certificate)
        if certificate is not None:
            connection.authorities = self._tls.authorities(stream.peer_chain())
            # The handshake began with the context of its time. A resumed session has no chain, and is checked already.
            if connection.authorities and not self._tls.still_trusts(connection.authorities):
                raise ValueError("its authority was taken out of the trust store during the handshake")

    def _plain_connection(self, ip: str) -> InboundConnection:
        assert self._receive_buffer is not None
        assert self._turns is not None
        return InboundConnection(
            id=next(_ids),
            listener_name=self.name,
            dispatch=self._dispatch,
            frame_bytes_max=self._frame_bytes_max,
            receive_buffer=self._receive_buffer,
            memory=self._memory,
            turns=self._turns,
            lines=self._lines,
            on_made=self._add_connection,
            on_lost=self._remove_connection,
            tasks=self._tasks,
            admitted_ip=ip,
            executor=self._executor,
            sendfile=self._sendfile,
            login=self._login,
            sends=self._sends,
            now=self._now,
        )

    def _add_connection(self, connection: InboundConnection) -> None:
        self.accepted += 1
        self.connections[connection] = None
        if self.on_connection_made is not None:
            self.on_connection_made(connection)

    def _remove_connection(self, connection: InboundConnection) -> None:
        self.connections.pop(connection, None)
        self._quiet_since.pop(connection, None)
        self._ended_requests += connection.requests
        self._ended_bytes_in += connection.bytes_in
        self._ended_bytes_out += connection.bytes_out
        self._admission.release(connection.admitted_ip)
        if self.on_connection_lost is not None:
            self.on_connection_lost(connection)
        if not self.connections:
            self._on_empty.set()

    def _schedule_sweep(self) -> None:
        delay = min(
            _SWEEP_SECONDS_MAX, max(_SWEEP_SECONDS_MIN, self._idle_seconds_max / _SWEEPS_PER_IDLE_TIME)
        )
        self._sweep_timer = asyncio.get_running_loop().call_later(delay, self._sweep)

    def _sweep(self) -> None:
        """Abort connections that were quiet for the idle time. One pass over all costs less than a timer for each."""
        now = asyncio.get_running_loop().time()
        for connection in list(self.connections):
            if connection.is_active or connection.is_waiting_for_handlers():
                connection.is_active = False
                self._quiet_since.pop(connection, None)
                continue
            since = self._quiet_since.setdefault(connection, now)
            if now - since >= self._idle_seconds_max:
                self.closed_idle += 1
                # Not close(): with a peer that does not read, unsent answers would stay for ever.
                connection.abort()
        self._schedule_sweep()
