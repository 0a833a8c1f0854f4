"""Fetch: records from a reader's offset up to the high watermark; for a follower up to the log's end.

The answer is made in three steps. The first finds the partitions to read: a session's, or the request's own. The
second reads what each of them has now (`reading`). When that is less than min_bytes, the third waits in the
purgatory and reads again. Records are slices of files: the transport loads or sends them when the socket has room.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final, cast

from odradek.broker.replication.replica_selector import replica_selector
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.current_leaders import current_leaders
from odradek.broker.requests.fetch.followers import FollowerReading
from odradek.broker.requests.fetch.reading import Fetched, FetchReading, FetchTarget
from odradek.broker.requests.fetch.sessions import (
    INITIAL_EPOCH,
    NO_FOLLOWER,
    FetchSession,
    ManyPartitions,
)
from odradek.broker.requests.fetch.waiting import note_waiting
from odradek.broker.requests.loading import for_many
from odradek.broker.requests.parts import FetchParts, FetchThrottling
from odradek.foundation.errors import (
    FetchSessionIdNotFound,
    RequestError,
)
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.frames import Frame, size_of
from odradek.wire.protocol.hot.elements import TooManyElements
from odradek.wire.protocol.hot.fetch_request import (
    FINAL_EPOCH,
    FIRST_WITH_TOPIC_IDS,
    NO_SESSION,
    FetchRequest,
    parse_fetch_request,
)
from odradek.wire.protocol.hot.fetch_response import (
    FIRST_WITH_LEADERS,
    INLINE_BYTES_MAX,
    LED_ELSEWHERE,
    pack_fetch_response,
)
from odradek.wire.protocol.throttle_times import with_throttle_time

logger = logging.getLogger(__name__)

FETCH: Final = ApiKey.FETCH

# Clients before this version know no preferred read replica (KIP-392).
_FIRST_FOR_ANY_REPLICA: Final = 11

_READ_COMMITTED: Final = 1

# As `restrict` of a small request, some partitions in each turn.
Restrict = Callable[[FetchReading], Awaitable[None]]
# Small slices of an answer with many partitions that are read at once: each would be a write of its own.
_INLINE_BYTES_OF_MANY_MAX: Final = 1024 * 1024


def handle(frame: memoryview, context: RequestContext[FetchParts]) -> Frame | Pending[Frame]:
    header = context.header
    try:
        request = parse_fetch_request(header.api_version, frame, header.body_position)
    except TooManyElements:
        return Pending(cast("Awaitable[Frame]", for_many("fetch.many").answer_in_turns(frame, context)))
    return answer_request(request, context)


def answer_request(
    request: FetchRequest,
    context: RequestContext[FetchParts],
    *,
    restrict: Callable[[FetchReading], None] | None = None,
    restrict_many: Restrict | None = None,
) -> Frame | Pending[Frame]:
    """Read now, or wait. `restrict` is called once with what is to be read, before it is.

    `restrict_many` does the same for a session with many partitions.
    """
    try:
        fetch = open_fetch(request, context)
    except RequestError as error:
        return encode(context, [], session_id=NO_SESSION, error=error)
    except ManyPartitions as many:
        answer = for_many("fetch.many").answer_session(many.session, request, context, restrict_many)
        return Pending(cast("Awaitable[Frame]", answer))
    if restrict is not None:
        restrict(fetch.reading)
    results = fetch.reading.read()
    if fetch.reading.is_unconfirmed:
        return Pending(_answer_confirmed(fetch, context))
    wait_ms = request.max_wait_ms
    bytes_missing = fetch.min_bytes - fetch.reading.size
    if bytes_missing <= 0 or wait_ms <= 0 or fetch.reading.must_answer_now or not fetch.reading.targets:
        return fetch.answer(results)
    return fetch.wait(results, bytes_missing=bytes_missing, wait_seconds=wait_ms / 1000)


async def _answer_confirmed(fetch: Fetch, context: RequestContext[FetchParts]) -> Frame:
    """The answer to a fetch outside of a log, once the controller has said whether this broker still leads it.

    A client that knows one broker only would not ask again, as the first Kafka's SimpleConsumer.
    """
    await context.broker.partitions.context.confirm_leadership()
    return fetch.answer(fetch.reading.read(after_wait=True))


def refuse(frame: memoryview, context: RequestContext[FetchParts], code: int) -> Frame:
    """The answer that has the error `code` for every partition; for tests that ask for faults."""
    header = context.header
    request = parse_fetch_request(header.api_version, frame, header.body_position, 0)
    try:
        fetch = open_fetch(request, context)
    except RequestError as error:
        return encode(context, [], session_id=NO_SESSION, error=error)
    except ManyPartitions:
        return encode(context, [], session_id=NO_SESSION, error=FetchSessionIdNotFound())
    results = [Fetched(target) for target in fetch.reading.targets]
    for fetched in results:
        fetched.error_code = code
    return fetch.answer(results)


class Fetch:
    """One fetch request from its arrival to its answer."""

    __slots__ = ("_context", "_is_incremental", "_session", "_throttling", "min_bytes", "reading")

    def __init__(
        self,
        context: RequestContext[FetchParts],
        reading: FetchReading,
        *,
        session: FetchSession | None,
        is_incremental: bool,
        min_bytes: int,
        throttling: FetchThrottling | None,
    ) -> None:
        """`throttling` has the client's quota; None where there is none, and for followers."""
        self._context = context
        self._session = session
        self._is_incremental = is_incremental
        self._throttling = throttling
        self.min_bytes = min_bytes
        self.reading = reading

    def wait(
        self, results: list[Fetched], *, bytes_missing: int, wait_seconds: float
    ) -> Frame | Pending[Frame]:
        """The answer once it has enough bytes or the time is up; at once when the purgatory takes no more."""
        pending: Pending[Frame] = Pending()

        def answer_now() -> None:
            if pending.done():
                return
            try:
                reply = self.answer(self.reading.read(after_wait=True))
            except Exception as error:
                logger.exception("%r: a fetch that waited failed", self._context.connection)
                reply = encode(self._context, [], session_id=NO_SESSION, error=error)
            pending.settle(reply)

        waiting = self._context.broker.purgatory.wait(
            self.reading.list_watched(results),
            bytes_missing=bytes_missing,
            wait_seconds=wait_seconds,
            on_ready=answer_now,
        )
        if waiting is None:
            return self.answer(results)
        # The transport cancels it when the connection closes.
        pending.when_cancelled(waiting.cancel)
        if type(self.reading) is not FollowerReading:
            note_waiting(self._context.connection, pending)
        return pending

    def answer(self, results: list[Fetched]) -> Frame:
        """The answer: all partitions, or in an incremental session those with something new for the client."""
        session = self._session
        if self._is_incremental:
            results = [*filter(_is_new, results)]
        frame = encode(self._context, results, session_id=NO_SESSION if session is None else session.id)
        if self._throttling is not None:
            throttle_ms, is_withheld = self._throttling.fetch_throttle(self._context, size_of(frame))
            if is_withheld:
                self._uncount(results)
                return self._without_records(throttle_ms)
            if throttle_ms:
                version = self._context.header.api_version
                frame = cast(Frame, with_throttle_time(FETCH, version, frame, throttle_ms))
        if session is not None:
            self._remember(session, results)
        return frame

    async def answer_in_turns(self, results: list[Fetched]) -> Frame:
        """As `answer`, for many partitions: the thread makes the frame."""
        session = self._session
        turn = Turn()
        if self._is_incremental:
            new: list[Fetched] = []
            for fetched in results:
                if turn.is_over():
                    await turn.next()
                if _is_new(fetched):
                    new.append(fetched)
            results = new
        session_id = NO_SESSION if session is None else session.id
        frame = await self._context.broker.long_work.submit(
            lambda: encode(
                self._context, results, session_id=session_id, inline_bytes_max=_INLINE_BYTES_OF_MANY_MAX
            )
        )
        if self._throttling is not None:
            throttle_ms, is_withheld = self._throttling.fetch_throttle(self._context, size_of(frame))
            if is_withheld:
                self._uncount(results)
                return self._without_records(throttle_ms)
            if throttle_ms:
                version = self._context.header.api_version
                frame = cast(Frame, with_throttle_time(FETCH, version, frame, throttle_ms))
        if session is not None:
            for start in range(0, len(results), REQUEST_ELEMENTS_PER_TURN_MAX):
                if start:
                    await turn.next()
                self._remember(session, results[start : start + REQUEST_ELEMENTS_PER_TURN_MAX])
        return frame

    def _uncount(self, results: list[Fetched]) -> None:
        for fetched in results:
            if fetched.partition is not None:
                fetched.partition.replica.bytes_out -= fetched.size

    def _remember(self, session: FetchSession, results: list[Fetched]) -> None:
        session.proof.note_answer(now=self._context.broker.clock.monotonic_seconds())
        for fetched in results:
            fetched.remember()
            if fetched.size and self._is_incremental:
                session.move_to_end(fetched.target)

    def _without_records(self, throttle_ms: int) -> Frame:
        """The answer to a client that must wait. A session stays as it is, and one that would begin does not."""
        session_id = NO_SESSION
        if self._session is not None:
            if self._is_incremental:
                session_id = self._session.id
            else:
                self._context.broker.fetch_sessions.remove(self._session.id)
        frame = encode(self._context, [], session_id=session_id)
        return cast(Frame, with_throttle_time(FETCH, self._context.header.api_version, frame, throttle_ms))


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


# --- the partitions to read -------------------------------------------------------------------------------


def open_fetch(request: FetchRequest, context: RequestContext[FetchParts]) -> Fetch:
    """Find the partitions asked for, by session or not. Raises the errors of fetch sessions."""
    version = context.header.api_version
    sessions = context.broker.fetch_sessions
    session_id = request.session_id
    epoch = request.session_epoch
    session: FetchSession | None = None
    targets: Collection[FetchTarget]
    is_incremental = False
    if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.remove(session_id)
        if epoch == INITIAL_EPOCH:
            session = sessions.create(
                request.partitions,
                uses_topic_ids=version >= FIRST_WITH_TOPIC_IDS,
                follower_id=max(request.replica_id, NO_FOLLOWER),
            )
        if session is None:
            targets = [FetchTarget(*asked) for asked in request.partitions]
        else:
            targets = session.targets.values()
    else:
        session = sessions.advance(
            session_id,
            epoch,
            request.partitions,
            request.forgotten,
            version=version,
            follower_id=max(request.replica_id, NO_FOLLOWER),
        )
        targets = session.targets.values()
        is_incremental = bool(targets)
        if not is_incremental:
            session = None
    return fetch_of(request, context, session, targets, is_incremental=is_incremental)


def fetch_of(
    request: FetchRequest,
    context: RequestContext[FetchParts],
    session: FetchSession | None,
    targets: Collection[FetchTarget],
    *,
    is_incremental: bool,
) -> Fetch:
    broker = context.broker
    bytes_max = min(request.max_bytes, broker.settings.fetch_max_bytes)
    throttling = broker.throttling
    if throttling is not None:
        bytes_max, throttling = _limit_bytes(throttling, request, context, bytes_max)
    reading = _reading(request, context, targets, session if is_incremental else None, bytes_max=bytes_max)
    return Fetch(
        context,
        reading,
        session=session,
        is_incremental=is_incremental,
        min_bytes=min(request.min_bytes, bytes_max),
        throttling=throttling,
    )


def _limit_bytes(
    throttling: FetchThrottling, request: FetchRequest, context: RequestContext[FetchParts], bytes_max: int
) -> tuple[int, FetchThrottling | None]:
    """(most bytes, the quota that counts). More than all windows of a quota could never be sent at once."""
    if request.replica_id >= 0:
        throttling.exempt()
        return bytes_max, None
    quota_bytes = throttling.fetch_bytes_max(context)
    return (bytes_max, None) if quota_bytes is None else (min(bytes_max, quota_bytes), throttling)


def _reading(
    request: FetchRequest,
    context: RequestContext[FetchParts],
    targets: Collection[FetchTarget],
    session: FetchSession | None,
    *,
    bytes_max: int,
) -> FetchReading:
    """Reads for a client or a follower. `session` is that of an incremental request."""
    broker = context.broker
    reading: FetchReading
    if request.replica_id >= 0:
        reading = FollowerReading(
            broker.partitions,
            targets,
            bytes_max=bytes_max,
            broker_id=request.replica_id,
            broker_epoch=request.replica_epoch,
            changes=session.changes_for(request.replica_id) if session is not None else None,
        )
    else:
        reading = FetchReading(
            broker.partitions,
            targets,
            bytes_max=bytes_max,
            is_committed_only=request.isolation_level == _READ_COMMITTED,
            leader_only=context.header.api_version < _FIRST_FOR_ANY_REPLICA,
        )
        if request.rack_id:
            reading.nearest = replica_selector(
                broker.settings.replica_selector_class, broker.images, request.rack_id
            )
    return reading


def encode(
    context: RequestContext[FetchParts],
    results: list[Fetched],
    *,
    session_id: int,
    error: Exception | None = None,
    inline_bytes_max: int = INLINE_BYTES_MAX,
) -> Frame:
    header = context.header
    leaders = None
    if header.api_version >= FIRST_WITH_LEADERS:
        elsewhere = [(one.topic, one.index) for one in results if one.error_code in LED_ELSEWHERE]
        if elsewhere:
            leaders = current_leaders(context.broker.images.current, context.listener_name, elsewhere)
    return pack_fetch_response(
        header.api_version,
        header.correlation_id,
        results,
        session_id=session_id,
        error_code=0 if error is None else error_code(error),
        leaders=leaders,
        inline_bytes_max=inline_bytes_max,
    )
