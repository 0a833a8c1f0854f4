"""From a frame to its answer: the road that every request takes.

A request is answered at once when its handler is; only an awaitable makes the connection wait. Errors that
a handler raises become an error answer of the request's own shape (`failures`), unexpected ones with the
trace in the log. What cannot be read at all raises: the transport then closes the connection, as Kafka
does.

Counting costs two looks at the clock. Faults for tests (`server.faults`) are consulted only when switched
on, by another class, so that nobody else pays for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from time import monotonic
from typing import Any, Final

from odradek.foundation.errors import InvalidRequest, KafkaStorageError, RequestError, StoreWriteFailed
from odradek.handlers import failures
from odradek.handlers.context import BrokerParts, ControllerParts, RequestContext
from odradek.handlers.counters import ApiCounters
from odradek.handlers.table import Handle, load
from odradek.protocol.api import API_KEY_MAX, ApiKey
from odradek.protocol.codec import decode_request, encode_response
from odradek.protocol.headers import RequestHeader, parse_request_header
from odradek.transport.connection import Connection, Reply
from odradek.transport.pending import PendingReply

logger = logging.getLogger(__name__)

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_LOGINS: Final = frozenset((int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)))
# These read their own bodies and pack their own answers.
_RAW: Final = frozenset((int(ApiKey.PRODUCE), int(ApiKey.FETCH)))


class Dispatcher:
    """Answers the requests of all connections of one broker, or of a controller while it is the active one."""

    def __init__(self, broker: BrokerParts | ControllerParts) -> None:
        self._broker: Any = broker
        self._counters = broker.counters.by_api
        self._table = broker.handlers
        self._raw = _RAW
        self._version_min = [1 << 15] * (API_KEY_MAX + 1)
        self._version_max = [-1] * (API_KEY_MAX + 1)
        for api_key, handler in self._table.items():
            self._version_min[api_key] = handler.version_min
            self._version_max[api_key] = handler.version_max
        self._handles: list[Handle | None] = [None] * (API_KEY_MAX + 1)

    def __call__(self, connection: Connection, frame: memoryview) -> Any:
        """The answer to one frame: a reply, something to await for one, or None when none is due.

        Raises InvalidRequest for what cannot be read, and for versions that are not served.
        """
        try:
            return self._dispatch(connection, frame)
        except InvalidRequest:
            self._broker.counters.malformed += 1
            raise

    def _dispatch(self, connection: Connection, frame: memoryview) -> Any:
        started = monotonic()
        header = parse_request_header(frame)
        api_key = header.api_key
        connection.client_id = header.client_id
        if not self._version_min[api_key] <= header.api_version <= self._version_max[api_key]:
            return self._unsupported(header)
        context = RequestContext(header, connection, self._broker, received_at=started)
        counters = self._counters[api_key]
        counters.request_bytes += len(frame)
        if api_key in self._raw:
            request: Any = frame
        else:
            request = decode_request(api_key, header.api_version, frame, header.body_position)
        try:
            handle = self._handles[api_key] or self._load(api_key)
            result = handle(request, context)
            kind = type(result)
            if kind is not bytes and kind is not list and result is not None:
                if kind is PendingReply:
                    result.when_settled(lambda done: _count_settled(done, counters, started))
                    return result
                if isinstance(result, asyncio.Future):
                    result.add_done_callback(lambda done: _count(done, counters, started))
                    return result
                if isinstance(result, Awaitable):
                    return self._finish(result, request, context)
                result = encode_response(api_key, header.api_version, header.correlation_id, result)
        except Exception as error:
            result = self._failed(error, request, context)
        if result is not None:
            counters.response_bytes += len(result) if type(result) is bytes else _size(result)
        counters.observe(monotonic() - started)
        return result

    def _load(self, api_key: int) -> Handle:
        handle = load(api_key, self._table)
        self._handles[api_key] = handle
        return handle

    async def _finish(self, answer: Awaitable[Any], request: Any, context: RequestContext) -> Reply | None:
        header = context.header
        try:
            result = await answer
            if not isinstance(result, bytes | list) and result is not None:
                result = encode_response(header.api_key, header.api_version, header.correlation_id, result)
        except Exception as error:
            result = self._failed(error, request, context)
        counters = self._counters[header.api_key]
        counters.observe(monotonic() - context.received_at)
        if result is not None:
            counters.response_bytes += _size(result)
        return result  # type: ignore[no-any-return]

    def _failed(self, error: Exception, request: Any, context: RequestContext) -> bytes:
        header = context.header
        self._counters[header.api_key].failures += 1
        if isinstance(error, StoreWriteFailed):
            error = KafkaStorageError(str(error))
        if not isinstance(error, RequestError):
            logger.error(
                "%s version %d from %r failed",
                ApiKey(header.api_key).name,
                header.api_version,
                context.connection,
                exc_info=error,
            )
        if header.api_key in self._raw:
            # Its handler answers for each partition; what comes here could not be read.
            raise error
        message = failures.answer(header.api_key, header.api_version, request, error)
        if message is None:
            raise error
        return encode_response(header.api_key, header.api_version, header.correlation_id, message)

    def _unsupported(self, header: RequestHeader) -> bytes:
        if header.api_key == _API_VERSIONS:
            from odradek.handlers import api_versions

            return encode_response(_API_VERSIONS, 0, header.correlation_id, api_versions.unsupported())
        name = ApiKey(header.api_key).name
        if header.api_key in _LOGINS:
            raise InvalidRequest(
                f"{name}: the client wants to log in with SASL, and this broker has no logins; "
                "set security.protocol=PLAINTEXT at the client"
            )
        if self._version_max[header.api_key] < 0:
            raise InvalidRequest(f"{name} is not served by this broker")
        raise InvalidRequest(
            f"{name} version {header.api_version} is not served; versions "
            f"{self._version_min[header.api_key]} to {self._version_max[header.api_key]} are"
        )


def _count(done: asyncio.Future[Any], counters: ApiCounters, started: float) -> None:
    """Count an answer that had to wait; one that was given up is not counted."""
    if not done.cancelled():
        counters.observe(monotonic() - started)
        if done.exception() is None and done.result() is not None:
            counters.response_bytes += _size(done.result())


def _count_settled(done: PendingReply, counters: ApiCounters, started: float) -> None:
    if not done.cancelled():
        counters.observe(monotonic() - started)
        if done.result() is not None:
            counters.response_bytes += _size(done.result())


def _size(reply: Any) -> int:
    return len(reply) if isinstance(reply, bytes) else sum(len(part) for part in reply)
