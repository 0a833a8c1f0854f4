"""From a frame to its answer: what happens with every request.

    frame -> header -> version served? -> decoded -> steps -> handler -> steps -> encoded -> frame

A request is answered at once when its handler answers at once; only a pending answer makes the connection wait. Errors
that a handler raises become an error answer of the request's own shape (`failures`), unexpected ones with the trace in
the log. What cannot be read at all raises: the transport then closes the connection, as Kafka does.

A step wraps the handlers: authentication, authorization, throttling and faults for tests are steps. The dispatcher
wraps a handler when it loads it, so a broker without steps pays nothing. The short path of Produce passes the steps
like every other request. Counting costs two readings of the clock.

A long request is answered in parts (`long_requests`), and a large one decoded and encoded in a thread. A turn that
takes too long all the same is counted, and a line names its request.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from odradek.broker.requests import failures, late
from odradek.broker.requests.context import AnyContext, PartContext, RequestContext
from odradek.broker.requests.counters import LATENCY_BOUNDS_SECONDS, ApiCounters
from odradek.broker.requests.families import AllParts, parts_for
from odradek.broker.requests.loading import Answer, Handle, load
from odradek.broker.requests.table import Handler
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidRequest, KafkaStorageError, OdradekError, RequestError
from odradek.foundation.loop_turns import next_turn
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.registry_errors import StoreWriteFailed
from odradek.foundation.turn_limits import (
    CLIENT_ID_CHARACTERS_LOGGED_MAX,
    LONG_TURN_LINES_PER_MINUTE_MAX,
    REQUEST_BYTES_AT_ONCE_MAX,
    REQUEST_BYTES_DECODED_AT_ONCE_MAX,
    TURN_SECONDS_MAX,
)
from odradek.network.connection import Connection
from odradek.network.pending import Pending
from odradek.wire.protocol.api import API_KEY_MAX, ApiKey
from odradek.wire.protocol.codec import decode_typed_request, encode_response
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.framing import RequestHeader, parse_request_header
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from odradek.broker.replication.blocking import BlockingWork
    from odradek.broker.requests.long_requests import LargeRequest
    from odradek.broker.requests.slow_requests import SlowRequests

logger = logging.getLogger(__name__)
_long_turns: Final = RateLimitedLog(
    logger, "requests that held up all others", lines_per_minute_max=LONG_TURN_LINES_PER_MINUTE_MAX
)

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
# A named tuple's own constructor takes three times as long, for every request.
_new_tuple = tuple.__new__

# A step calls the handler, or answers in its place. The request is the frame where the handler takes frames. An
# exception is answered as if the handler had raised it.
Step = Callable[[Handle, object, AnyContext], Answer]


class Wrapper(Protocol):
    """A step that has something to do for some APIs only: the others are called as if it were not there."""

    def wrap(self, api_key: int, handle: Handle) -> Handle: ...


AnyStep = Step | Wrapper
Result = TypeVar("Result")


def _run_here(work: Callable[[], Result]) -> asyncio.Future[Result]:
    """As `BlockingWork.submit`, without a thread."""
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future


class CloseConnection(OdradekError):
    """A step closes the connection instead of answering."""


class Dispatcher:
    """Answers the requests of all connections of one broker or controller."""

    def __init__(
        self,
        parts: AllParts,
        *,
        table: Mapping[int, Handler] | None = None,
        handles: Mapping[int, Handle] | None = None,
        steps: Sequence[AnyStep] = (),
    ) -> None:
        """`table` replaces the parts' own table, `handles` replaces the modules that the table names.

        The first of `steps` sees a request first and its answer last.
        """
        self._parts = [parts_for(parts, api_key) for api_key in range(API_KEY_MAX + 1)]
        shared = parts.shared
        self._all_counters = shared.counters
        self._counters = shared.counters.by_api
        self._slow_requests: SlowRequests | None = None
        # A controller that is not the active one has none.
        self._long_work: BlockingWork | None = shared.optional_long_work
        self._table = shared.handlers if table is None else table
        self._own_handles = handles or {}
        self._steps: tuple[AnyStep, ...] = tuple(steps)
        self._version_min = [1 << 15] * (API_KEY_MAX + 1)
        self._version_max = [-1] * (API_KEY_MAX + 1)
        self._takes_frame = [False] * (API_KEY_MAX + 1)
        for api_key, handler in self._table.items():
            self._version_min[api_key] = handler.version_min
            self._version_max[api_key] = handler.version_max
            self._takes_frame[api_key] = handler.takes_frame
        self._handles: list[Handle | None] = [None] * (API_KEY_MAX + 1)

    def __call__(self, connection: Connection, frame: memoryview) -> Frame | Pending[Frame | None] | None:
        """The answer to one frame, at once or pending; None when none is due.

        Raises InvalidRequest for what cannot be read, and for versions that are not served.
        """
        try:
            return self._dispatch(connection, frame)
        except InvalidRequest:
            self._all_counters.malformed += 1
            raise

    def _dispatch(self, connection: Connection, frame: memoryview) -> Frame | Pending[Frame | None] | None:
        started = monotonic()
        header = parse_request_header(frame)
        api_key = header.api_key
        connection.client_id = header.client_id
        if not self._version_min[api_key] <= header.api_version <= self._version_max[api_key]:
            return self._answer_unsupported(header)
        context = _new_tuple(
            RequestContext, (header, connection, self._parts[api_key], started, connection.principal)
        )
        counters = self._counters[api_key]
        counters.request_bytes += len(frame)
        request: object = frame
        if not self._takes_frame[api_key]:
            if len(frame) > REQUEST_BYTES_AT_ONCE_MAX and self._takes_turns(api_key):
                return self._answer_large(frame, context)
            request = decode_typed_request(api_key, header.api_version, frame, header.body_position)
        try:
            handle = self._handles[api_key] or self._load(api_key)
            answer = handle(request, context)
            kind = type(answer)
            if kind is bytes or kind is list or answer is None:
                # `cast` is a call, for every request.
                reply: Frame | None = answer  # type: ignore[assignment]
            elif kind is Pending:
                return self._when_ready(answer, request, context)  # type: ignore[arg-type]
            else:
                message: Message = answer  # type: ignore[assignment]
                reply = encode_response(api_key, header.api_version, header.correlation_id, message)
        except Exception as error:
            reply = self._answer_failure(error, request, context)
        seconds = monotonic() - started
        since = connection.waiting_since
        if since or seconds > self._all_counters.looked_at_seconds:
            if seconds > TURN_SECONDS_MAX:
                self._note_long_turn(context, seconds)
            # Without a call more for each answer: `_seconds_queued`.
            queued = context.received_at - since if since else 0.0
            if seconds + queued > self._all_counters.slow_seconds:
                self._note_slow_request(request, context, reply, seconds, queued)
        _count_answer(counters, reply, seconds)
        return reply

    def _takes_turns(self, api_key: int) -> bool:
        # ApiVersions is answered at once: it comes before a login.
        return self._long_work is not None and api_key != _API_VERSIONS

    def _answer_large(self, frame: memoryview, context: AnyContext) -> Pending[Frame | None]:
        """The answer to a request that takes more than one turn of the loop; see `long_requests`."""
        # What the client has sent behind it must not overtake it.
        context.connection.hold()
        answer = Pending(self._large(frame, context))
        answer.time_steps(
            lambda seconds: self._note_long_turn(context, seconds), seconds_max=TURN_SECONDS_MAX
        )
        queued = _seconds_queued(context)
        return answer.then(lambda reply: self._count_reply(reply, frame, context, queued))

    async def _large(self, frame: memoryview, context: AnyContext) -> Frame | None:
        from odradek.broker.requests.long_requests import LargeRequest

        in_thread = self._thread_for(frame)
        large = LargeRequest(context.header)
        self._all_counters.large += 1
        try:
            # All that came in one turn begin here in the next one.
            await next_turn()
            try:
                await in_thread(partial(large.decode, frame))
            except InvalidRequest:
                self._all_counters.malformed += 1
                raise
            try:
                is_first_later = len(frame) > REQUEST_BYTES_DECODED_AT_ONCE_MAX
                finished = await self._answer_parts(large, context, is_first_later=is_first_later)
                return await in_thread(large.encode) if large.answers else finished
            except Exception as error:
                return await in_thread(partial(large.refuse, self._refusal(error, context)))
        finally:
            # The answer need not wait for this, but the connection's next request must: it may be as large.
            in_thread(large.free).add_done_callback(lambda _: self._end_large(context))

    def _end_large(self, context: AnyContext) -> None:
        self._all_counters.large -= 1
        context.connection.release()

    async def _answer_parts(
        self, large: LargeRequest, context: AnyContext, *, is_first_later: bool
    ) -> Frame | None:
        """Fill in the answers, in a turn each. A handler that encodes its answer gives the frame instead."""
        handle = self._handles[context.header.api_key] or self._load(context.header.api_key)
        if large.named_twice:
            context = PartContext(*context)
            context.named_twice = large.named_twice
        for part in large.parts:
            if large.answers or is_first_later:
                await next_turn()
            answer = await self._answer_part(handle, part, context)
            if answer is None or isinstance(answer, bytes | list):
                return cast("Frame | None", answer)
            large.answers.append(cast(Message, answer))
        return None

    def _thread_for(self, frame: memoryview) -> Callable[[Callable[[], Result]], asyncio.Future[Result]]:
        """What decodes and encodes a request of this size: the thread, or this turn where that takes no time."""
        assert self._long_work is not None
        return self._long_work.submit if len(frame) > REQUEST_BYTES_DECODED_AT_ONCE_MAX else _run_here

    async def _answer_part(self, handle: Handle, request: object, context: AnyContext) -> object:
        answer = handle(request, context)
        return await answer if isinstance(answer, Pending) else answer

    def _note_long_turn(self, context: AnyContext, seconds: float) -> None:
        header = context.header
        self._counters[header.api_key].long_turns += 1
        # No warning: a machine whose processors are busy elsewhere makes any turn long.
        _long_turns.info(
            "%s version %d from %r (client %r) held up all others for %d ms, longer than the %d ms of a turn",
            ApiKey(header.api_key).name,
            header.api_version,
            context.connection,
            header.client_id[:CLIENT_ID_CHARACTERS_LOGGED_MAX],
            seconds * 1000,
            TURN_SECONDS_MAX * 1000,
        )

    # --- slow requests -----------------------------------------------------------------------------------------------

    @property
    def slow_seconds(self) -> float:
        return self._all_counters.slow_seconds

    def note_slow_send(self, connection: Connection, head: bytes, seconds: float) -> None:
        """Note that a connection took this long until it had sent the answer to the request that begins so."""
        self._notes_of_slow_requests().note_send(connection, head, seconds)

    def _note_slow_request(
        self, request: object, context: AnyContext, reply: Frame | None, seconds: float, queued: float
    ) -> None:
        self._notes_of_slow_requests().note(request, context, reply, handling=seconds, queued=queued)

    def _notes_of_slow_requests(self) -> SlowRequests:
        """What notes slow requests; most processes never load it."""
        if self._slow_requests is None:
            self._slow_requests = late.SlowRequests(self._all_counters)
        return self._slow_requests

    def change_steps(self, change: Callable[[tuple[AnyStep, ...]], Sequence[AnyStep]]) -> None:
        """Replace the steps by what `change` makes of them, for all requests from now on."""
        self._steps = tuple(change(self._steps))
        self._handles = [None] * (API_KEY_MAX + 1)

    def _load(self, api_key: int) -> Handle:
        handle = self._own_handles.get(api_key) or load(api_key, self._table)
        for step in reversed(self._steps):
            handle = _with(step, handle) if callable(step) else step.wrap(api_key, handle)
        self._handles[api_key] = handle
        return handle

    def _encode_answer(self, answer: Message | Frame | None, header: RequestHeader) -> Frame | None:
        if answer is None or isinstance(answer, bytes | bytearray | memoryview | list):
            return answer
        return encode_response(header.api_key, header.api_version, header.correlation_id, answer)

    def _when_ready(
        self, answer: Pending[Message | Frame | None], request: object, context: AnyContext
    ) -> Pending[Frame | None]:
        """The frame once the answer is settled. A cancelled answer is not counted."""
        counters = self._counters[context.header.api_key]
        # Without a call more for each answer: `_seconds_queued`, `_count_reply`.
        since = context.connection.waiting_since
        queued = context.received_at - since if since else 0.0

        def make_reply(ready: Message | Frame | None) -> Frame | None:
            reply: Frame | None
            if type(ready) is bytes:
                reply = ready
            else:
                try:
                    reply = self._encode_answer(ready, context.header)
                except Exception as error:
                    reply = self._answer_failure(error, request, context)
            seconds = monotonic() - context.received_at
            if seconds + queued > self._all_counters.slow_seconds:
                self._note_slow_request(request, context, reply, seconds, queued)
            _count_answer(counters, reply, seconds)
            return reply

        answer.time_steps(
            lambda seconds: self._note_long_turn(context, seconds), seconds_max=TURN_SECONDS_MAX
        )
        return answer.then(
            make_reply,
            failed=lambda error: self._count_reply(
                self._answer_failure(error, request, context), request, context, queued
            ),
        )

    def _count_reply(
        self, reply: Frame | None, request: object, context: AnyContext, queued: float
    ) -> Frame | None:
        """Count an answer that was not given at once, `queued` seconds after its request had come."""
        seconds = monotonic() - context.received_at
        if seconds + queued > self._all_counters.slow_seconds:
            self._note_slow_request(request, context, reply, seconds, queued)
        _count_answer(self._counters[context.header.api_key], reply, seconds)
        return reply

    def _answer_failure(self, error: Exception, request: object, context: AnyContext) -> bytes:
        error = self._refusal(error, context)
        header = context.header
        message = failures.answer(header.api_key, header.api_version, request, error)
        if message is None:
            raise error
        return encode_response(header.api_key, header.api_version, header.correlation_id, message)

    def _refusal(self, error: Exception, context: AnyContext) -> Exception:
        """The error that a request is answered with. Raises what closes the connection instead."""
        if isinstance(error, CloseConnection):
            raise error
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
        if self._takes_frame[header.api_key]:
            # Its handler answers errors itself, so this frame could not be read.
            raise error
        # A function that raises what it has in a variable is part of its own error's trace.
        return without_trace(error)

    def _answer_unsupported(self, header: RequestHeader) -> bytes:
        if header.api_key == _API_VERSIONS:
            from odradek.broker.requests import api_versions

            return encode_response(_API_VERSIONS, 0, header.correlation_id, api_versions.answer_unsupported())
        name = ApiKey(header.api_key).name
        if self._version_max[header.api_key] < 0:
            raise InvalidRequest(f"{name} is not served by this broker")
        raise InvalidRequest(
            f"{name} version {header.api_version} is not served; versions "
            f"{self._version_min[header.api_key]} to {self._version_max[header.api_key]} are"
        )


def _seconds_queued(context: AnyContext) -> float:
    """How long a request had waited when it was dispatched."""
    since = context.connection.waiting_since
    return max(0.0, context.received_at - since) if since else 0.0


def _with(step: Step, handle: Handle) -> Handle:
    return lambda request, context: step(handle, request, context)


def _count_answer(counters: ApiCounters, reply: Frame | None, seconds: float) -> None:
    """Count one answered request that took `seconds`."""
    counters.requests += 1
    counters.seconds += seconds
    counters.buckets[bisect_left(LATENCY_BOUNDS_SECONDS, seconds)] += 1
    if reply is not None:
        counters.response_bytes += sum(map(len, reply)) if type(reply) is list else len(reply)
