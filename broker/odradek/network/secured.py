"""A network whose connections are encrypted and logged in: for clients, and for brokers among themselves.

    connect -> TLS handshake -> SaslHandshake, SaslAuthenticate … -> the protocol that was asked for

Listening is passed on unchanged. A login that ends is renewed by a protocol that can (`Renewable`). Others lose their
connection at its end, and open it again. `log_in` is the login itself, on a new connection or on one in use (KIP-368).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast, runtime_checkable

from odradek.foundation.endpoints import SECURITY_PROTOCOLS
from odradek.foundation.errors import SettingError
from odradek.foundation.ids import ANONYMOUS
from odradek.foundation.settings.protection import WITH_SASL, WITH_TLS
from odradek.network.network import Network, ProtocolFactory
from odradek.network.tls import TlsStream, handshake_failure_text, tls_receive_buffer
from odradek.security.authentication.credentials import Credentials, client_credentials
from odradek.security.authentication.exchange import ServerRefused
from odradek.security.authentication.oauth_documents import TokenUnavailable
from odradek.security.tls.contexts import FollowedContext, client_context
from odradek.security.tls.files import TlsOptions, tls_options
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import FrameReader

if TYPE_CHECKING:
    from odradek.foundation.settings.declaration import SettingValue
    from odradek.wire.protocol.messages import AnyMessage

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
_TOKENS_MAX: Final = 8
# A login is renewed after this part of its life: not by all clients at once, and before it ends. As Kafka's clients.
_RENEWED_AFTER: Final = (0.85, 0.95)
# Sends a request in a version and gives the answer. Raises OSError when the connection is lost.
Ask = Callable[..., Awaitable[Any]]
_LOGIN_ANSWER_BYTES_MAX: Final = 1024 * 1024


class ConnectionSecurity(NamedTuple):
    """The steps on a new connection before it is used."""

    tls: TlsOptions | None
    credentials: Credentials | None


def connection_security(
    protocol: str, value: Callable[[str], SettingValue], *, name: str, mechanism_key: str = "sasl.mechanism"
) -> ConnectionSecurity:
    """The security of `protocol`, with the values that `value` gives by key. Raises SettingError that names `name`."""
    if protocol not in SECURITY_PROTOCOLS:
        raise SettingError(f"{name}: security.protocol must be one of {', '.join(SECURITY_PROTOCOLS)}")
    tls = tls_options(name, value) if protocol in WITH_TLS else None
    return ConnectionSecurity(
        tls,
        client_credentials(value, name=name, mechanism_key=mechanism_key) if protocol in WITH_SASL else None,
    )


class TlsFailed(ConnectionError):
    """The TLS handshake failed."""


@runtime_checkable
class Renewable(Protocol):
    """A protocol above that can log in again on its connection."""

    def renew_login(self, log_in: Callable[[Ask], Awaitable[float | None]], *, after_seconds: float) -> None:
        """Call `log_in` with a way to send requests after this time, when no other request can come between.

        It gives the seconds to the next time, or None.
        """
        ...


class SecureNetwork:
    """Makes connections over `network`. Raises SettingError or DependencyError when the security cannot be had."""

    def __init__(self, network: Network, security: ConnectionSecurity, *, client_id: str) -> None:
        self._network = network
        self.listen = network.listen
        self._security = security
        self._client_id = client_id
        self.followed = None if security.tls is None else FollowedContext(security.tls, client_context)
        self._receive_buffer = tls_receive_buffer()

    @property
    def principal(self) -> str | None:
        """The principal of a login by name. None for a certificate or a token, of which only the broker knows it."""
        credentials = self._security.credentials
        if credentials is None:
            keystore = None if self._security.tls is None else self._security.tls.keystore
            return None if keystore is not None and keystore.is_given else ANONYMOUS
        is_named = credentials.tokens is None and not credentials.is_token
        return f"User:{credentials.user}" if is_named else None

    async def connect(
        self, protocol_factory: ProtocolFactory, *, host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        """(transport, protocol), encrypted and logged in. Raises OSError; TlsFailed and LoginFailed are two."""
        conversation = _Conversation()
        if self.followed is None:
            transport, _ = await self._network.connect(lambda: conversation, host=host, port=port)
        else:
            transport = await self._connect_tls(conversation, host=host, port=port)
        renew_after: float | None = None
        credentials = self._security.credentials
        try:
            if credentials is not None:
                renew_after = await log_in(_asking(conversation, self._client_id), credentials)
            conversation.check_open()
        except BaseException:
            transport.abort()
            raise
        protocol = protocol_factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if renew_after is not None and credentials is not None and isinstance(protocol, Renewable):
            protocol.renew_login(lambda ask: log_in(ask, credentials), after_seconds=renew_after)
        return transport, protocol

    async def _connect_tls(self, conversation: _Conversation, *, host: str, port: int) -> asyncio.Transport:
        assert self.followed is not None
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_end(stream: TlsStream, failure: Exception | None) -> None:
            if not ended.done():
                if failure is None:
                    ended.set_result(None)
                else:
                    ended.set_exception(
                        TlsFailed(f"TLS with {host}:{port} failed: {handshake_failure_text(failure)}")
                    )

        stream = TlsStream(
            conversation,
            self.followed.current,
            on_end=on_end,
            receive_buffer=self._receive_buffer,
            server_hostname=host,
        )
        try:
            await self._network.connect(lambda: stream, host=host, port=port)
            await ended
        except BaseException:
            stream.abort()
            if ended.done() and not ended.cancelled():
                ended.exception()
            raise
        return cast(asyncio.Transport, stream)


class _Conversation(asyncio.BufferedProtocol):
    """Request and answer by turns, until another protocol takes the transport over."""

    def __init__(self) -> None:
        self._reader = FrameReader(_LOGIN_ANSWER_BYTES_MAX)
        self._transport: Any = None
        self._answer: asyncio.Future[memoryview] | None = None
        self._failure: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._reader.take_received(nbytes):
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(frame)
        if self._reader.failure is not None:
            self._fail(LoginFailed("the answer to a login is no answer of Kafka's"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or LoginFailed("the broker closed the connection during the login"))

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(failure)

    def check_open(self) -> None:
        """Raises the reason when the connection is lost."""
        if self._failure is not None:
            raise self._failure

    async def ask(self, frame: bytes) -> memoryview:
        """Raises OSError when the connection is lost."""
        self.check_open()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._answer


def _asking(conversation: _Conversation, client_id: str) -> Ask:
    """Requests of a login, by turns."""

    async def ask(api: ApiKey, version: int, **fields: object) -> AnyMessage:
        frame = codec.encode_request(api, version, 0, client_id, messages.request(api, version, **fields))
        return codec.decode_response(api, version, await conversation.ask(frame))[1]

    return ask


class LoginFailed(ConnectionError):
    """The broker refuses the login, or does not prove itself."""


async def log_in(ask: Ask, credentials: Credentials) -> float | None:
    """Log in; after how many seconds to do so again, None when the login does not end.

    Raises LoginFailed, and OSError when the connection is lost.
    """
    try:
        exchange = await credentials.new_exchange()
    except TokenUnavailable as failure:
        raise LoginFailed(f"there is no token to log in with: {failure}") from failure
    answer = await ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, mechanism=credentials.mechanism)
    if int(answer.error_code):
        raise LoginFailed(
            f"the broker has no logins with {credentials.mechanism}, only with {', '.join(answer.mechanisms)}; "
            "set sasl.mechanism to one of these"
        )
    received, lifetime_ms = b"", 0
    for _ in range(_TOKENS_MAX):
        try:
            token = exchange.answer(received)
        except ServerRefused as refused:
            raise LoginFailed(f"the login of {credentials.shown} is given up: {refused}") from refused
        if token is None:
            part = random.uniform(*_RENEWED_AFTER)
            return lifetime_ms / 1000 * part if lifetime_ms > 0 else None
        answer = await ask(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, auth_bytes=token)
        if int(answer.error_code):
            raise LoginFailed(
                f"the broker refuses the login of {credentials.shown} with {credentials.mechanism}: "
                f"{answer.error_message}; check the {credentials.what_to_check}"
            )
        received = bytes(answer.auth_bytes)
        lifetime_ms = round(answer.session_lifetime.total_seconds() * 1000)
    raise LoginFailed("the broker does not come to an end with the login")
