"""TLS over any transport: a protocol for the transport below, and a transport for the protocol above.

    plain transport -> buffer_updated -> MemoryBIO -> SSLObject.read -> protocol above
    protocol above  -> write -> SSLObject.write -> MemoryBIO -> plain transport

The event loop's own TLS is not used. Uvloop's takes about 730 KiB for a connection that once received 2 MB, this layer
86. It has no socket that sendfile could write clear bytes to. Handshakes are counted (`handshake_turns`), and a
simulated network carries TLS as well. Certificates are checked by OpenSSL, with the context that the caller gives.

The protocol above is made known of the connection after the handshake. A close sends close_notify and does not wait for
the peer's. Frames have sizes of their own, so a stream that is cut off cannot pass for a whole one.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from odradek.foundation.limits import TLS_BYTES_PER_READ, TLS_BYTES_PER_WRITE, TLS_HANDSHAKE_BYTES_MAX

# Called once with the stream: with None after the handshake, else with the reason why there is none.
HandshakeEnd = Callable[["TlsStream", Exception | None], None]
_Bytes = bytes | bytearray | memoryview

_PLAIN_TEXT_REASONS: Final = frozenset(("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"))


def tls_receive_buffer() -> memoryview:
    """Memory for encrypted bytes, which all streams of one event loop may share."""
    return memoryview(bytearray(TLS_BYTES_PER_READ))


class HandshakeTurns(Protocol):
    """Decides when the steps of handshakes are made."""

    def begin(self, stream: TlsStream) -> None: ...

    def step_soon(self, stream: TlsStream) -> None:
        """Call `stream.step`, now or later: bytes of its handshake have arrived."""
        ...

    def end(self, stream: TlsStream) -> None:
        """A handshake is done or failed."""
        ...


class TlsStream(asyncio.BufferedProtocol):
    """One connection. `app` is the protocol above; its `connection_made` gets this object as its transport.

    `on_end` is called at the end of the handshake and may call `fail`, which ends the connection. `turns` says when the
    steps of a server's handshake are made; without it, at once.
    """

    __slots__ = (
        "_app",
        "_handshake_bytes",
        "_incoming",
        "_is_closing",
        "_is_lost",
        "_is_made",
        "_is_read_scheduled",
        "_is_reading_paused",
        "_is_step_due",
        "_on_end",
        "_outgoing",
        "_plain",
        "_receive_buffer",
        "_ssl",
        "_turns",
        "address",
    )

    def __init__(
        self,
        app: asyncio.BufferedProtocol,
        context: ssl.SSLContext,
        *,
        on_end: HandshakeEnd,
        receive_buffer: memoryview,
        turns: HandshakeTurns | None = None,
        server_hostname: str | None = None,
    ) -> None:
        """With `server_hostname` this is the client's end, and asks for that name."""
        self._app = app
        self._on_end: HandshakeEnd | None = on_end
        self._turns = turns
        self._receive_buffer = receive_buffer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )
        self._plain: Any = None
        self._handshake_bytes = 0
        self._is_made = False
        self._is_lost = False
        self._is_closing = False
        self._is_reading_paused = False
        self._is_read_scheduled = False
        self._is_step_due = False
        self.address = ""
        """Of the peer, once it is connected."""

    def __hash__(self) -> int:
        return id(self)

    @property
    def app(self) -> asyncio.BufferedProtocol:
        """The protocol above."""
        return self._app

    def peer_certificate(self) -> bytes | None:
        """The peer's own certificate in DER, checked against the context; None without one."""
        return self._ssl.getpeercert(binary_form=True)

    def peer_chain(self) -> list[bytes]:
        """The chain in DER that the peer's certificate was checked with, up to what is trusted.

        Empty without a certificate, and for a session that was resumed.
        """
        return _get_verified_chain(self._ssl)

    # --- what the plain transport calls -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._plain = cast(Any, transport)
        if self._is_closing:
            self._plain.abort()
            return
        self.address = (transport.get_extra_info("peername") or ("",))[0]
        if self._turns is not None:
            self._turns.begin(self)
        if self._ssl.server_hostname is not None:
            self.step()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self._is_closing = True
        if self._is_made:
            self._app.connection_lost(exc)
        else:
            self._end_handshake(
                exc or ConnectionResetError("the peer closed the connection in the handshake")
            )

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closing:
            return
        self._incoming.write(self._receive_buffer[:nbytes])
        if self._is_made:
            self._read()
            return
        self._handshake_bytes += nbytes
        if self._handshake_bytes > TLS_HANDSHAKE_BYTES_MAX:
            self.fail(ConnectionAbortedError(f"a handshake of more than {TLS_HANDSHAKE_BYTES_MAX} bytes"))
        elif self._turns is None:
            self.step()
        else:
            # Until then no more is read: a client's first requests may follow its handshake at once.
            if not self._is_step_due:
                self._is_step_due = True
                self._plain.pause_reading()
            self._turns.step_soon(self)

    def eof_received(self) -> bool:
        if self._is_made:
            self._app.eof_received()
        return False

    def pause_writing(self) -> None:
        if self._is_made:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        if self._is_made:
            self._app.resume_writing()

    # --- the handshake ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Continue the handshake as far as the bytes received allow."""
        if self._is_made or self._is_closing:
            return
        if self._is_step_due:
            self._is_step_due = False
            self._plain.resume_reading()
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._drain()
            return
        except (ssl.SSLError, ssl.CertificateError) as failure:
            self._drain()  # the alert for the peer
            self.fail(failure, is_told=True)
            return
        self._drain()
        self._end_handshake(None)
        if self._is_refused():
            return
        self._is_made = True
        self._app.connection_made(cast(asyncio.BaseTransport, self))
        self._read()

    def _is_refused(self) -> bool:
        return self._is_closing

    def fail(self, failure: Exception, *, is_told: bool = False) -> None:
        """End a connection whose handshake failed. `is_told` leaves the transport time to send what is written."""
        if self._is_closing:
            return
        self._is_closing = True
        self._end_handshake(failure)
        if self._plain is not None:
            if is_told:
                self._plain.close()
            else:
                self._plain.abort()

    def _end_handshake(self, failure: Exception | None) -> None:
        on_end, self._on_end = self._on_end, None
        if self._turns is not None:
            self._turns.end(self)
        if on_end is not None:
            on_end(self, failure)

    # --- bytes ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Hand decrypted bytes up, in pieces of at most `TLS_BYTES_PER_READ`, until none are left or it pauses."""
        self._is_read_scheduled = False
        read = self._ssl.read
        is_more = True
        while is_more and not self._is_reading_paused and not self._is_closing:
            buffer = cast(memoryview, self._app.get_buffer(-1))
            room = min(len(buffer), TLS_BYTES_PER_READ)
            filled = 0
            is_ended = False
            try:
                while filled < room:
                    count = read(room - filled, cast(Any, buffer[filled:room]))
                    if not count:
                        is_ended = True
                        break
                    filled += cast(int, count)
            except ssl.SSLWantReadError:
                is_more = False
            except ssl.SSLZeroReturnError:
                is_ended = True
            except ssl.SSLError as failure:
                self._end_broken(failure)
                return
            if filled:
                self._app.buffer_updated(filled)
            if is_ended:
                self._receive_close()
                return
        if self._outgoing.pending and not self._is_lost:
            self._drain()

    def _receive_close(self) -> None:
        """The peer has sent close_notify: nothing more will come from it."""
        if not self._is_closing:
            self._app.eof_received()
            self.close()

    def _end_broken(self, failure: ssl.SSLError) -> None:
        """Bytes came that are no TLS, or were changed on their way: nothing after them can be trusted."""
        if self._is_closing:
            return
        self._is_closing = True
        self._drain()
        self._plain.close()

    def _drain(self) -> None:
        if self._outgoing.pending:
            self._plain.write(self._outgoing.read())

    # --- what the protocol above calls ------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another protocol, which is not notified of the connection."""
        self._app = cast(asyncio.BufferedProtocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._app

    def write(self, data: _Bytes) -> None:
        """Encrypt and send. Does nothing once the connection is closing, as other transports."""
        if self._is_closing or not len(data):
            return
        try:
            if len(data) <= TLS_BYTES_PER_WRITE:
                self._ssl.write(cast(bytes, data))
                self._plain.write(self._outgoing.read())
                return
            view = memoryview(data)
            for position in range(0, len(view), TLS_BYTES_PER_WRITE):
                self._ssl.write(cast(bytes, view[position : position + TLS_BYTES_PER_WRITE]))
                self._plain.write(self._outgoing.read())
        except ssl.SSLError as failure:
            self._end_broken(failure)

    def writelines(self, parts: Iterable[_Bytes]) -> None:
        """Small parts are joined: a record of TLS for each would cost four times as much."""
        joined: list[_Bytes] = []
        size = 0
        for part in parts:
            if size + len(part) > TLS_BYTES_PER_WRITE and joined:
                self.write(b"".join(joined))
                joined, size = [], 0
            joined.append(part)
            size += len(part)
        if len(joined) == 1:
            self.write(joined[0])
        elif joined:
            self.write(b"".join(joined))

    def pause_reading(self) -> None:
        if not self._is_reading_paused and not self._is_closing:
            self._is_reading_paused = True
            self._plain.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading_paused or self._is_closing:
            return
        self._is_reading_paused = False
        self._plain.resume_reading()
        if not self._is_read_scheduled:
            # Bytes that were decrypted or received before the pause come without another event of the socket.
            self._is_read_scheduled = True
            asyncio.get_running_loop().call_soon(self._read_again)

    def _read_again(self) -> None:
        if self._is_read_scheduled and not self._is_lost:
            self._read()

    def close(self) -> None:
        """Close after what is written has been sent."""
        if self._is_closing:
            return
        self._is_closing = True
        with suppress(ssl.SSLError):
            # Raises because the peer's close_notify is not awaited.
            self._ssl.unwrap()
        self._drain()
        self._plain.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        if self._plain is not None:
            self._plain.abort()

    def is_closing(self) -> bool:
        return self._is_closing or bool(self._plain.is_closing())

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As of the transport below, but no socket: what writes to it would pass TLS by."""
        if name == "socket":
            return default
        if name == "ssl_object":
            return self._ssl
        return self._plain.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return int(self._plain.get_write_buffer_size()) + self._outgoing.pending

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._plain.set_write_buffer_limits(high=high, low=low)


def _get_verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    if sys.version_info >= (3, 13):
        return connection.get_verified_chain()
    else:  # noqa: RET505 - what follows a return would count as unreachable on Python 3.13
        # Until Python 3.13 the method is there, and not public.
        chain = cast(Any, connection)._sslobj.get_verified_chain()
        return [] if chain is None else [ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in chain]


def handshake_failure_text(failure: Exception) -> str:
    """Why a handshake failed, in words for a log line or an error."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {failure.verify_message}"
    if isinstance(failure, ssl.SSLError):
        reason = (failure.reason or str(failure)).upper()
        if reason in _PLAIN_TEXT_REASONS:
            return "the peer speaks plain text, and this is TLS; set security.protocol=SSL or SASL_SSL there"
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return "the peer showed no certificate, and ssl.client.auth=required"
        return reason.replace("_", " ").lower()
    return str(failure) or type(failure).__name__
