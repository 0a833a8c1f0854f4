"""The log of slow requests: one line for each, with where its time went and what it was about.

    queued     it was received, and waited for its connection's turn
    handling   from then to its answer, without the time that it wanted to wait
    waiting    what it wanted: a Fetch its max wait, a Produce with acks=all its replicas, a JoinGroup the other members
    sending    from its answer until the connection had sent all that was due; noted by itself

Time in which a client was throttled, or had an earlier large request under way, is its own and does not count. What
the line names is found only now: a request that is not slow pays for a comparison.
"""

from __future__ import annotations

import logging
import math
import struct
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from odradek.broker.quotas.token_bucket import TokenBucket
from odradek.broker.requests.counters import RequestCounters
from odradek.broker.requests.subjects import Fields, describe_subjects, parse_request, shorten
from odradek.foundation.turn_limits import SLOW_REQUEST_LINES_PER_MINUTE_MAX
from odradek.wire.protocol.api import API_KEY_MAX, ApiKey
from odradek.wire.protocol.hot.fetch_request import FetchRequest
from odradek.wire.protocol.hot.produce import ProduceRequest

if TYPE_CHECKING:
    from odradek.broker.requests.context import AnyContext
    from odradek.network.connection import Connection
    from odradek.wire.protocol.frames import Frame

logger = logging.getLogger(__name__)

_SECONDS_PER_MINUTE: Final = 60
_LINES_PER_SECOND: Final = SLOW_REQUEST_LINES_PER_MINUTE_MAX / _SECONDS_PER_MINUTE
_ALL_REPLICAS: Final = -1
_HEAD: Final = struct.Struct(">hhi")
# The fields of a request that say how long it may wait.
_WAITING_FIELDS: Final[dict[int, tuple[str, ...]]] = {
    ApiKey.SHARE_FETCH: ("max_wait",),
    ApiKey.JOIN_GROUP: ("rebalance_timeout", "session_timeout"),
}


class SlowRequests:
    """Notes slow requests of one process in its counters, and some of them in the log."""

    def __init__(self, counters: RequestCounters) -> None:
        self._counters = counters
        self._lines = TokenBucket(burst_seconds=_SECONDS_PER_MINUTE)

    def note(
        self, request: object, context: AnyContext, reply: Frame | None, *, handling: float, queued: float
    ) -> None:
        """Note a request, if it is slow without the time that it wanted to wait. `handling` has that time."""
        parsed = parse_request(request, context.header)
        waited = min(handling, _seconds_to_wait(context.header.api_key, parsed))
        if handling - waited + queued <= self._counters.slow_seconds:
            return
        fields = {
            **_fields_of_client(context.connection, context.header.client_id, context.principal),
            "request_bytes": len(request) if isinstance(request, memoryview) else None,
            "response_bytes": _size(reply),
            "queued_ms": _milliseconds(queued),
            "handling_ms": _milliseconds(handling - waited),
            "waiting_ms": _milliseconds(waited),
            **describe_subjects(parsed, context.broker.images.current),
        }
        header = context.header
        total = handling + queued
        self._log(header.api_key, header.api_version, header.correlation_id, total, fields)

    def note_send(self, connection: Connection, head: bytes, seconds: float) -> None:
        """Note a request whose answer took this long to be sent. `head` is how it begins."""
        api_key, version, correlation_id = _HEAD.unpack(head)
        fields = {
            **_fields_of_client(connection, connection.client_id, connection.principal),
            "sending_ms": _milliseconds(seconds),
        }
        self._log(api_key, version, correlation_id, seconds, fields)

    def _log(self, api_key: int, version: int, correlation_id: int, seconds: float, fields: Fields) -> None:
        if not 0 <= api_key <= API_KEY_MAX:
            return
        self._counters.by_api[api_key].slow += 1
        now_ms = int(monotonic() * 1000)
        if self._lines.tokens(_LINES_PER_SECOND, now_ms) < 1:
            self._counters.slow_not_logged += 1
            return
        self._lines.spend(1, _LINES_PER_SECOND, now_ms)
        api = ApiKey(api_key).name
        named = {"api": api, "version": version, "correlation_id": correlation_id, **fields}
        logger.warning(
            "slow request: %s took %d ms",
            api,
            _milliseconds(seconds),
            extra={"fields": {name: value for name, value in named.items() if value is not None}},
        )


def _fields_of_client(connection: Connection, client_id: str, principal: str) -> Fields:
    return {
        "client_id": shorten(client_id),
        "principal": shorten(principal),
        "peer": f"{connection.peer[0]}:{connection.peer[1]}" if connection.peer else "",
        "listener": connection.listener_name,
    }


def _seconds_to_wait(api_key: int, request: object) -> float:
    """How long a request may wait by its own wish."""
    if isinstance(request, FetchRequest):
        return max(0, request.max_wait_ms) / 1000
    if isinstance(request, ProduceRequest):
        return max(0, request.timeout_ms) / 1000 if request.acks == _ALL_REPLICAS else 0.0
    if request is None:
        return 0.0
    if api_key == ApiKey.SYNC_GROUP:
        # It waits for the leader of its group, and says no limit.
        return math.inf
    if api_key not in _WAITING_FIELDS:
        return 0.0
    return max(_seconds(getattr(request, name, 0)) for name in _WAITING_FIELDS[api_key])


def _seconds(duration: timedelta | int) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration / 1000


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _size(reply: Frame | None) -> int:
    if reply is None:
        return 0
    return sum(map(len, reply)) if isinstance(reply, list) else len(reply)
