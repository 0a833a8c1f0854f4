"""Logins in front of the dispatcher: what a listener with SASL does with the frames of its clients (KIP-152, KIP-368).

    first -> (ApiVersions)? -> SaslHandshake -> tokens -> logged in -> (SaslHandshake -> tokens -> logged in)*

Until a client has logged in, one frame is taken in a turn, and frames have a bound of their own. All APIs but these are
refused by their number alone. Tokens follow a handshake of version 0 without headers, and later versions in
SaslAuthenticate.

The answer to a failed login is held back, and says the same for every reason; the log has the reason. A login that has
an end may be renewed by the same user with the same mechanism. After its end the next request closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum, auto
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from odradek.broker.requests import failures
from odradek.broker.requests.sasl_counters import SaslCounters
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.security_errors import (
    IllegalSaslState,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from odradek.network.connection import Connection, Dispatch
from odradek.network.pending import Pending
from odradek.security.authentication.delegation_tokens import BY_TOKEN
from odradek.security.authentication.exchange import Login, LoginRefused, SaslExchange
from odradek.security.authentication.listener import ListenerSasl, Mechanism
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_typed_request, encode_response
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.framing import RequestHeader, parse_request_header
from odradek.wire.protocol.messages import response

if TYPE_CHECKING:
    from odradek.wire.protocol.requests.clients import SaslAuthenticateRequest, SaslHandshakeRequest

logger = logging.getLogger(__name__)

_STATE: Final = "login"
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)
_HANDSHAKE_VERSION_MAX: Final = 1
_AUTHENTICATE_VERSION_MAX: Final = 2
# To a client that renews its login again sooner it is answered that it has logged in already.
_SECONDS_BETWEEN_LOGINS_MIN: Final = 1.0
_ERROR_AT: Final = 8  # in an answer to ApiVersions, behind its size and correlation id
_api_key_at = Struct(">h").unpack_from
_put_size = Struct(">i").pack


class _Phase(Enum):
    FIRST = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    RAW_TOKENS = auto()
    LOGGED_IN = auto()
    REFUSED = auto()


class _Session:
    """The login of one connection."""

    __slots__ = ("ends_at", "exchange", "is_renewal", "mechanism", "phase", "renewed_at", "user")

    def __init__(self) -> None:
        self.phase = _Phase.FIRST
        self.exchange: SaslExchange | None = None
        self.mechanism = ""
        self.user = ""
        self.ends_at: float | None = None
        self.renewed_at: float | None = None
        self.is_renewal = False


def login_of(connection: Connection) -> tuple[str, str] | None:
    """The user of a connection and the mechanism of the login; None before a login."""
    session: _Session | None = connection.state.get(_STATE)
    return (session.user, session.mechanism) if session is not None and session.user else None


class _Unanswered(LoginRefused):
    """A refusal that Kafka answers by closing the connection."""


class _RefusedExchange:
    """Refuses the first token."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def answer(self, token: bytes) -> tuple[bytes, Login | None]:
        raise _Unanswered(self._reason)


class SaslDispatcher:
    """Answers the requests of one listener: logins itself, all others by `dispatcher`.

    `now` is in monotonic seconds.
    """

    def __init__(self, dispatcher: Dispatch, sasl: ListenerSasl, *, now: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._sasl = sasl
        self._now = now
        self._lines = RateLimitedLog(logger, "logins that failed")
        self.counters = SaslCounters(sasl.mechanisms)

    def __call__(self, connection: Connection, frame: memoryview) -> Frame | Pending[Frame | None] | None:
        """The answer to one frame. Raises InvalidRequest for what cannot be read and for what comes too early."""
        session: _Session | None = connection.state.get(_STATE)
        if session is None:
            session = connection.state[_STATE] = _Session()
        if session.phase is _Phase.RAW_TOKENS:
            return self._raw_token(connection, session, bytes(frame))
        if len(frame) < 2:
            raise InvalidRequest(f"a frame of {len(frame)} bytes is too short for a request")
        (api_key,) = _api_key_at(frame)
        if session.phase is _Phase.LOGGED_IN:
            return self._serve_logged_in(connection, session, frame, api_key)
        if session.phase is _Phase.TOKENS:
            return self._token(connection, session, frame, api_key)
        if session.phase is _Phase.REFUSED:
            return None
        if api_key == ApiKey.API_VERSIONS and session.phase is _Phase.FIRST:
            return self._api_versions(connection, session, frame)
        if api_key == _HANDSHAKE:
            return self._handshake(connection, session, frame)
        raise InvalidRequest(
            "a client that has not logged in sends a request other than SaslHandshake; "
            "set security.protocol=SASL_PLAINTEXT or SASL_SSL at the client"
        )

    # --- before and after a login ----------------------------------------------------------------------------

    def _api_versions(self, connection: Connection, session: _Session, frame: memoryview) -> Frame:
        answer = self._dispatcher(connection, frame)
        assert isinstance(answer, bytes), "ApiVersions is answered at once"
        if answer[_ERROR_AT : _ERROR_AT + 2] == b"\0\0":
            # A client whose versions are refused asks again, once.
            session.phase = _Phase.HANDSHAKE
        return answer

    def _serve_logged_in(
        self, connection: Connection, session: _Session, frame: memoryview, api_key: int
    ) -> Frame | Pending[Frame | None] | None:
        if api_key == _HANDSHAKE and self._may_renew(session):
            session.is_renewal = True
            return self._handshake(connection, session, frame)
        if session.ends_at is not None and self._now() > session.ends_at:
            self.counters.of(session.mechanism).expired += 1
            connection.close()
            return None
        return self._dispatcher(connection, frame)

    def _may_renew(self, session: _Session) -> bool:
        now = self._now()
        if session.renewed_at is not None and now - session.renewed_at < _SECONDS_BETWEEN_LOGINS_MIN:
            return False
        session.renewed_at = now
        return True

    # --- a login ---------------------------------------------------------------------------------------------

    def _handshake(
        self, connection: Connection, session: _Session, frame: memoryview
    ) -> Frame | Pending[Frame | None] | None:
        header = _header(connection, frame, version_max=_HANDSHAKE_VERSION_MAX)
        decoded = decode_typed_request(_HANDSHAKE, header.api_version, frame, header.body_position)
        request = cast("SaslHandshakeRequest", decoded)
        name = request.mechanism
        mechanism = self._sasl.mechanisms.get(name)
        if mechanism is None:
            reason = f"the mechanism {name!r} is not enabled; enabled are {', '.join(self._sasl.mechanisms)}"
            answer = self._handshake_answer(header, UnsupportedSaslMechanism(reason))
            return self._refuse(connection, session, reason, answer)
        if session.is_renewal and name != session.mechanism:
            # As in Kafka, the handshake passes, and the first token is refused.
            reason = f"a login with {session.mechanism} cannot be renewed with {name}"
            session.exchange = _RefusedExchange(reason)
        else:
            session.mechanism = name
            session.exchange = mechanism.new_exchange()
        session.phase = _Phase.RAW_TOKENS if header.api_version == 0 else _Phase.TOKENS
        return self._handshake_answer(header, None)

    def _handshake_answer(self, header: RequestHeader, error: OdradekError | None) -> bytes:
        return _encode_answer(header, error_code=error_code(error), mechanisms=list(self._sasl.mechanisms))

    def _raw_token(
        self, connection: Connection, session: _Session, token: bytes
    ) -> Frame | Pending[Frame | None] | None:
        assert session.exchange is not None
        try:
            answer, login = session.exchange.answer(token)
            if login is not None:
                self._complete(connection, session, login)
        except LoginRefused as refused:
            return self._refuse(connection, session, str(refused), None)
        return _put_size(len(answer)) + answer

    def _token(
        self, connection: Connection, session: _Session, frame: memoryview, api_key: int
    ) -> Frame | Pending[Frame | None] | None:
        if api_key != _AUTHENTICATE:
            reason = "another request came among the tokens of a login"
            return self._refuse(connection, session, reason, _illegal(connection, frame, reason))
        header = _header(connection, frame, version_max=_AUTHENTICATE_VERSION_MAX)
        decoded = decode_typed_request(_AUTHENTICATE, header.api_version, frame, header.body_position)
        request = cast("SaslAuthenticateRequest", decoded)
        assert session.exchange is not None
        lifetime_ms = 0
        try:
            token, login = session.exchange.answer(bytes(request.auth_bytes))
            if login is not None:
                lifetime_ms = self._complete(connection, session, login)
        except LoginRefused as refused:
            failure = SaslAuthenticationFailed("Authentication failed: invalid credentials or user")
            is_answered = not isinstance(refused, _Unanswered)
            answer = _authenticate_answer(header, failure, b"", 0) if is_answered else None
            return self._refuse(connection, session, str(refused), answer)
        return _authenticate_answer(header, None, token, lifetime_ms)

    def _complete(self, connection: Connection, session: _Session, login: Login) -> int:
        """Note the login; returns how many milliseconds it lasts, 0 without an end. Raises LoginRefused."""
        if session.is_renewal and login.user != session.user:
            raise LoginRefused(f"the user {session.user!r} cannot become {login.user!r} while connected")
        now = self._now()
        lifetime_ms = _lifetime_ms(self._sasl.mechanisms[session.mechanism], login)
        session.user = login.user
        session.exchange = None
        session.ends_at = now + lifetime_ms / 1000 if lifetime_ms else None
        session.phase = _Phase.LOGGED_IN
        # Renewed with another token, the connection lives as long as that one.
        connection.state[BY_TOKEN] = login.token_id
        counts = self.counters.of(session.mechanism)
        if session.is_renewal:
            counts.renewals += 1
        else:
            counts.successful += 1
            connection.admit(f"User:{login.user}")
        return lifetime_ms

    def _refuse(
        self, connection: Connection, session: _Session, reason: str, answer: bytes | None
    ) -> Frame | Pending[Frame | None] | None:
        """Log why, and answer and close after the delay, so that passwords cannot be tried quickly."""
        session.phase = _Phase.REFUSED
        session.exchange = None
        counts = self.counters.of(session.mechanism)
        if session.is_renewal:
            counts.failed_renewals += 1
        else:
            counts.failed += 1
        self._lines.warning("%r fails to log in: %s", connection, reason)
        connection.close()
        if not self._sasl.failure_delay_ms:
            return answer
        delayed: Pending[Frame | None] = Pending()
        asyncio.get_running_loop().call_later(self._sasl.failure_delay_ms / 1000, delayed.settle, answer)
        return delayed


def _lifetime_ms(mechanism: Mechanism, login: Login) -> int:
    limits = [limit for limit in (mechanism.lifetime_ms_max, login.lifetime_ms) if limit]
    return min(limits, default=0)


def _header(connection: Connection, frame: memoryview, *, version_max: int) -> RequestHeader:
    header = parse_request_header(frame)
    if not 0 <= header.api_version <= version_max:
        name = ApiKey(header.api_key).name
        raise InvalidRequest(f"{name} version {header.api_version} is not served; 0 to {version_max} are")
    connection.client_id = header.client_id
    return header


def _authenticate_answer(
    header: RequestHeader, error: OdradekError | None, token: bytes, lifetime_ms: int
) -> bytes:
    return _encode_answer(
        header,
        error_code=error_code(error),
        error_message="" if error is None else str(error),
        auth_bytes=token,
        session_lifetime=lifetime_ms,
    )


def _encode_answer(header: RequestHeader, **fields: object) -> bytes:
    message = response(header.api_key, header.api_version, **fields)
    return encode_response(header.api_key, header.api_version, header.correlation_id, message)


def _illegal(connection: Connection, frame: memoryview, reason: str) -> bytes | None:
    """ILLEGAL_SASL_STATE in the shape of the request; None where it has no such answer."""
    header = parse_request_header(frame)
    connection.client_id = header.client_id
    try:
        request = decode_typed_request(header.api_key, header.api_version, frame, header.body_position)
        answer = failures.answer(header.api_key, header.api_version, request, IllegalSaslState(reason))
    except OdradekError:
        return None
    if answer is None:
        return None
    return encode_response(header.api_key, header.api_version, header.correlation_id, answer)
