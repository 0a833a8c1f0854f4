"""Fetch: records from where a reader stands, up to what is committed; for a follower up to the log's end.

The answer is made in three steps: which partitions are asked for (a session's, or the request's own), what
each of them has now (`fetch_reading`), and, when that is less than min_bytes, a wait in the purgatory and a
second look. Records are file slices: the transport loads or sends them when the socket has room.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from odradek.foundation.errors import RequestError
from odradek.handlers.context import RequestContext
from odradek.handlers.current_leaders import FETCH_TAG, CurrentLeaders
from odradek.handlers.errors import error_code
from odradek.handlers.fetch_followers import FollowerReading
from odradek.handlers.fetch_reading import Fetched, FetchReading
from odradek.handlers.fetch_request import FetchRequest, parse_fetch_request
from odradek.handlers.fetch_sessions import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    INITIAL_EPOCH,
    NO_FOLLOWER,
    NO_SESSION,
    Session,
    Target,
)
from odradek.handlers.fetch_wire import encode_fetch_answer, names_leaders
from odradek.replication.nearest import nearest_replica
from odradek.transport.connection import Reply
from odradek.transport.pending import PendingReply

logger = logging.getLogger(__name__)

VERSIONS: Final = (4, 18)

# Clients before it know nothing of replicas to read from (KIP-392).
_FIRST_FOR_ANY_REPLICA: Final = 11

_READ_COMMITTED: Final = 1


def handle(frame: memoryview, context: RequestContext) -> Reply | PendingReply:
    header = context.header
    request = parse_fetch_request(header.api_version, frame, header.body_position)
    try:
        fetch = _open(request, context)
    except RequestError as error:
        return _encode(context, [], session_id=NO_SESSION, error=error)
    results = fetch.reading.read()
    wait_ms = request.max_wait_ms
    bytes_missing = request.min_bytes - fetch.reading.size
    if bytes_missing <= 0 or wait_ms <= 0 or fetch.reading.has_news or not fetch.reading.targets:
        return fetch.answer(results)
    return fetch.wait(results, bytes_missing=bytes_missing, wait_seconds=wait_ms / 1000)


def refuse(frame: memoryview, context: RequestContext, code: int) -> Reply:
    """The answer that has the error `code` for every partition; for tests that ask for faults."""
    header = context.header
    request = parse_fetch_request(header.api_version, frame, header.body_position)
    try:
        fetch = _open(request, context)
    except RequestError as error:
        return _encode(context, [], session_id=NO_SESSION, error=error)
    results = [Fetched(target) for target in fetch.reading.targets]
    for fetched in results:
        fetched.error_code = code
    return fetch.answer(results)


class Fetch:
    """One fetch request from its arrival to its answer."""

    __slots__ = ("_context", "_is_incremental", "_session", "reading")

    def __init__(
        self, context: RequestContext, reading: FetchReading, *, session: Session | None, is_incremental: bool
    ) -> None:
        self._context = context
        self._session = session
        self._is_incremental = is_incremental
        self.reading = reading

    def wait(
        self, results: list[Fetched], *, bytes_missing: int, wait_seconds: float
    ) -> Reply | PendingReply:
        """The answer once there is enough of it or the time is up; at once when nobody may wait."""
        pending = PendingReply()

        def answer_now() -> None:
            if pending.done():
                return
            try:
                reply = self.answer(self.reading.read(is_again=True))
            except Exception as error:
                logger.exception("%r: a fetch that waited failed", self._context.connection)
                reply = _encode(self._context, [], session_id=NO_SESSION, error=error)
            pending.settle(reply)

        waiting = self._context.broker.purgatory.wait(
            self.reading.watched(results),
            bytes_missing=bytes_missing,
            wait_seconds=wait_seconds,
            on_ready=answer_now,
        )
        if waiting is None:
            return self.answer(results)
        # The transport gives it up when the connection is gone.
        pending.when_settled(lambda done: waiting.cancel() if done.cancelled() else None)
        return pending

    def answer(self, results: list[Fetched]) -> Reply:
        """The whole answer; of an incremental session's only what is new to its client."""
        session = self._session
        if session is None:
            return _encode(self._context, results, session_id=NO_SESSION)
        session.proof.answered(now=self._context.broker.clock.monotonic_seconds())
        if self._is_incremental:
            results = [fetched for fetched in results if _is_new(fetched)]
        for fetched in results:
            fetched.remember()
            if fetched.size and self._is_incremental:
                session.to_the_end(fetched.target)
        return _encode(self._context, results, session_id=session.id)


def _is_new(fetched: Fetched) -> bool:
    target = fetched.target
    return (
        fetched.size > 0
        or fetched.error_code != 0
        or fetched.diverging is not None
        or fetched.preferred_replica >= 0
        or fetched.high_watermark != target.high_watermark
        or fetched.log_start_offset != target.log_start_offset
    )


# --- what is asked for ------------------------------------------------------------------------------------


def _open(request: FetchRequest, context: RequestContext) -> Fetch:
    """Find the partitions asked for, by session or not. Raises the errors of fetch sessions."""
    version = context.header.api_version
    asked = request.targets
    sessions = context.broker.fetch_sessions
    session_id = request.session_id
    epoch = request.session_epoch
    session: Session | None = None
    targets: Collection[Target] = asked
    is_incremental = False
    if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.remove(session_id)
        if epoch == INITIAL_EPOCH:
            session = sessions.create(
                asked,
                uses_topic_ids=version >= FIRST_VERSION_WITH_TOPIC_IDS,
                follower_id=max(request.replica_id, NO_FOLLOWER),
            )
            if session is not None:
                targets = session.targets.values()
    else:
        session = sessions.advance(
            session_id,
            epoch,
            asked,
            request.forgotten,
            version=version,
            follower_id=max(request.replica_id, NO_FOLLOWER),
        )
        is_incremental = bool(session.targets)
        if is_incremental:
            targets = session.targets.values()
        else:
            session = None
    broker = context.broker
    bytes_max = min(request.max_bytes, broker.settings.fetch_max_bytes)
    reading: FetchReading
    if request.replica_id >= 0:
        reading = FollowerReading(
            broker.partitions,
            targets,
            bytes_max=bytes_max,
            broker_id=request.replica_id,
            broker_epoch=request.replica_epoch,
            news=session.news_for(request.replica_id) if session is not None and is_incremental else None,
        )
    else:
        reading = FetchReading(
            broker.partitions,
            targets,
            bytes_max=bytes_max,
            is_committed_only=request.isolation_level == _READ_COMMITTED,
            leader_only=version < _FIRST_FOR_ANY_REPLICA,
        )
        if request.rack_id:
            reading.nearest = nearest_replica(
                broker.settings.replica_selector_class, broker.images, request.rack_id
            )
    return Fetch(context, reading, session=session, is_incremental=is_incremental)


def _encode(
    context: RequestContext, results: list[Fetched], *, session_id: int, error: Exception | None = None
) -> Reply:
    header = context.header
    leaders = None
    if names_leaders(header.api_version, results):
        leaders = CurrentLeaders(
            context.broker.images.current, context.connection.listener_name, tag=FETCH_TAG
        )
    return encode_fetch_answer(
        header.api_version,
        header.correlation_id,
        results,
        session_id=session_id,
        error_code=error_code(error),
        leaders=leaders,
    )
