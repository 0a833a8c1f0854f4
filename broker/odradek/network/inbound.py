"""One connection of a client: frames in, answers out in the order of the requests.

    buffer_updated -> FrameReader -> dispatch -> immediate answer -> joined with others of this turn, one write
                                              -> pending answer   -> queued until all earlier answers are ready

A turn of the loop answers a bounded number of frames, for a bounded time. The rest waits for the connection's turn
(`request_turns`), and reading pauses. Reading also pauses at the bound of unanswered requests, and while the peer does
not read its answers. TCP then pushes back on the sender, so a connection takes bounded memory for any behaviour of its
peer.

File slices are loaded when the socket has room: from the page cache at once, from the device on a thread
while the connection waits. `connection_states` has its states; `ending` has its end, and its pauses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from time import monotonic
from typing import Final, cast

from odradek.foundation.errors import OdradekError
from odradek.foundation.limits import (
    REQUEST_BYTES_COUNTED_MIN,
    REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX,
    REQUESTS_PER_TURN_MAX,
    RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX,
    SENT_BYTES_PER_TURN_MAX,
    SENT_PART_BYTES,
)
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.turn_limits import (
    CONNECTION_TURN_SECONDS_MAX,
    FRAMES_SPLIT_AT_ONCE_MAX,
    PIPELINED_REQUESTS_AT_ONCE_MAX,
    REQUEST_BYTES_AT_ONCE_MAX,
)
from odradek.network.connection import Dispatch, SendWatch
from odradek.network.connection_states import (
    CLOSING,
    DRAINED,
    ENDED,
    FILLED,
    FLOWING,
    LOAD_BEGUN,
    LOAD_ENDED,
    LOST,
    MEMORY_FREE,
    MEMORY_SHORT,
    OPEN,
    READING,
    READING_PAUSED,
    READING_RESUMED,
    SHORT,
    TURN_AWAITED,
    TURN_BEGUN,
    TURN_ENDED,
    TURN_IS_DUE,
    TURN_TAKEN,
)
from odradek.network.ending import EndingConnection
from odradek.network.login_bounds import LoginBounds, PendingLogin
from odradek.network.pending import Pending, QueuedAnswer
from odradek.network.request_memory import RequestMemory
from odradek.network.request_turns import RequestTurns
from odradek.network.sendfile import PartSource
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.framing import FrameReader

# Answers of one turn up to this many bytes are joined into one write; larger ones are written without a copy.
_JOINED_BYTES_MAX: Final = 64 * 1024
# API, version and correlation id of a request.
_HEAD_BYTES: Final = 8
_PRODUCE: Final = int(ApiKey.PRODUCE).to_bytes(2, "big")


def _are_short(frames: Sequence[memoryview]) -> bool:
    """Whether the requests may be answered at once: few, and the first, which stands for all, is not long.

    Records are no work: of a long Produce the frame is not decoded.
    """
    if len(frames) > PIPELINED_REQUESTS_AT_ONCE_MAX:
        return False
    first = frames[0]
    return len(first) <= REQUEST_BYTES_AT_ONCE_MAX or first[:2] == _PRODUCE


class InboundConnection(EndingConnection, asyncio.BufferedProtocol):
    """The protocol object of an accepted connection.

    `on_made` and `on_lost` are called with the connection when it begins and, once, when it has ended.
    """

    __slots__ = (
        "_dispatch",
        "_frames_bytes",
        "_input",
        "_login",
        "_login_bounds",
        "_loop",
        "_now",
        "_on_lost",
        "_on_made",
        "_output",
        "_pending_bytes",
        "_queued_bytes",
        "_sends",
        "_source",
        "_tasks",
        "_turns",
        "_unsent_head",
        "_unsent_since",
        "admitted_ip",
        "is_active",
    )

    def __init__(
        self,
        *,
        id: int,
        listener_name: str,
        dispatch: Dispatch,
        frame_bytes_max: int,
        receive_buffer: memoryview,
        memory: RequestMemory,
        turns: RequestTurns,
        lines: RateLimitedLog,
        on_made: Callable[[InboundConnection], None],
        on_lost: Callable[[InboundConnection], None],
        tasks: TaskOwner,
        admitted_ip: str = "",
        executor: Executor | None = None,
        sendfile: bool = False,
        login: LoginBounds | None = None,
        sends: SendWatch | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`now` is in seconds: one that stands still lets each turn answer as many requests as its number allows."""
        super().__init__(id=id, listener_name=listener_name)
        self._loop = asyncio.get_running_loop()
        self._dispatch = dispatch
        self._reader = FrameReader(
            frame_bytes_max, receive_buffer, memory.is_short, frames_at_once_max=FRAMES_SPLIT_AT_ONCE_MAX
        )
        self._login_bounds = login
        self._login: PendingLogin | None = None
        self._memory = memory
        self._turns = turns
        self._lines = lines
        self._tasks = tasks
        self.admitted_ip = admitted_ip
        self._on_made = on_made
        self._on_lost = on_lost
        self._source = PartSource(executor=executor, sendfile=sendfile)
        self._transport = cast(asyncio.Transport, None)  # until it is made
        self._frames = deque()  # received, not yet dispatched
        self._answers = deque()  # from the first request that is not answered yet
        self._out = deque()  # due, not yet with the transport
        self._holds = 0  # requests that none may overtake, and a mute
        self._mute = None
        self._now = now
        self._life = OPEN
        self._input = READING
        self._output = FLOWING
        self._is_dispatching = False  # a handler may close the connection and still answer
        self.is_active = True
        """Set by every byte received or sent; the listener's sweep clears it."""
        # Bytes of requests, as `_memory` counts them: all; of `_frames`; of those whose answer is pending.
        self._held = 0
        self._frames_bytes = 0
        self._pending_bytes = 0
        self._queued_bytes = 0  # of answers that are ready, in `_answers`
        # The first request whose answer could not be sent at once, until all is sent.
        self._sends = sends
        self._unsent_head = b""
        self._unsent_since = 0.0

    # --- what the transport calls -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.local = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self._source.prepare(self._transport, unsent_max=RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX)
        if self._login_bounds is not None:
            self._login = PendingLogin(self._login_bounds, self._reader, on_late=self._fail)
        self._on_made(self)

    def connection_lost(self, failure: Exception | None) -> None:
        self._life = ENDED[self._life]
        if self._mute is not None:
            self._mute.cancel()
        if self._login is not None:
            self._login.end()
        self._drop()
        if self.lost_callbacks is not None:
            self.report_lost()
        self._on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        self.is_active = True
        if self._life is not OPEN:
            return
        before = self._reader.bytes_held
        frames = self._reader.take_received(nbytes)
        if frames:
            if self._frames or self._holds or not _are_short(frames):
                self._frames.extend(frames)
                self._pause_reading()
                self._schedule()
            else:
                self._answer(frames)
        # Of two wrong frames in one read, the first has ended the connection and is in the log.
        if self._reader.failure is not None and not self._frames and self._life is OPEN:
            self._fail(self._reader.failure)
            return
        if self._frames and frames:
            self._frames_bytes += before + nbytes
        self._account(is_next_request=bool(frames))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._output = FILLED[self._output]

    def resume_writing(self) -> None:
        self._output = DRAINED[self._output]
        self.is_active = True
        if self._out:
            self._pump()
        elif self._unsent_since:
            self._end_unsent()
        self._resume()

    # --- requests -----------------------------------------------------------------------------------------

    def _answer(self, frames: list[memoryview]) -> None:
        """Dispatch `frames` in order, and send the immediate answers with one write."""
        turn_max = REQUESTS_PER_TURN_MAX if self._login is None else 1
        if len(frames) > turn_max:
            self._frames.extendleft(reversed(frames[turn_max:]))
            del frames[turn_max:]
        dispatch = self._dispatch
        answers = self._answers
        ready: list[bytes] = []
        count = ready_bytes = 0
        failure: Exception | None = None
        self._is_dispatching = True
        ends_at = 0.0 if len(frames) == 1 else self._now() + CONNECTION_TURN_SECONDS_MAX
        for frame in frames:
            if count and self._now() > ends_at:
                break
            try:
                reply = dispatch(self, frame)
            except Exception as raised:
                failure = raised
                break
            count += 1
            if type(reply) is bytes and not answers:
                ready.append(reply)
                ready_bytes += len(reply)
                if ready_bytes < RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX and not (
                    self._life is not OPEN or self._holds
                ):
                    continue
            elif reply is None and not self._holds:
                continue
            if ready:
                self._send_ready(ready, ready_bytes)
                ready, ready_bytes = [], 0
            if reply is not None and (type(reply) is not bytes or answers):
                self._enqueue(reply, frame)
            if count < len(frames) and self._is_blocked():
                break
        self._is_dispatching = False
        self.requests += count
        if ready:
            self._send_ready(ready, ready_bytes)
        if failure is not None:
            self._fail(failure)
            return
        if self._life is not OPEN:
            self._close_when_done()
            return
        if count < len(frames):
            self._frames.extendleft(reversed(frames[count:]))
        if self._frames or self._is_blocked():
            self._pause_reading()
            self._schedule()

    def _is_blocked(self) -> bool:
        return (
            self._output is not FLOWING
            or self._holds > 0
            or len(self._answers) >= REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
            or self._queued_bytes >= RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX
            or self._life is not OPEN
        )

    # --- requests that wait ---------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Answer, in this connection's turn, frames that nothing else delays."""
        if self._frames and not self.waiting_since:
            self.waiting_since = monotonic()
        if self._frames and self._input not in TURN_IS_DUE and not self._is_blocked():
            self._pause_reading()
            self._input = TURN_AWAITED[self._input]
            self._turns.wait(self)

    def take_turn(self) -> None:
        self._input = TURN_TAKEN[self._input]
        if not self._is_blocked():
            self._continue()

    def _continue(self) -> None:
        """Answer frames that waited, or read again when none are left."""
        waiting = self._frames
        if waiting:
            if len(waiting) <= REQUESTS_PER_TURN_MAX:
                frames = list(waiting)
                waiting.clear()
            else:
                frames = [waiting.popleft() for _ in range(REQUESTS_PER_TURN_MAX)]
            self._answer(frames)
        if not waiting:
            self.waiting_since = 0.0
        if not waiting and self._reader.has_more and self._life is OPEN:
            waiting.extend(self._reader.more())
            self._schedule()
        self._account()
        if waiting or self._is_blocked() or self._input is SHORT:
            return
        if self._reader.failure is not None:
            self._fail(self._reader.failure)
        elif self._input is not READING:
            self._input = READING_RESUMED[self._input]
            self._transport.resume_reading()

    def _resume(self) -> None:
        """Continue with what waits, if nothing delays it any more."""
        if (self._input is READING and not self._frames) or self._input in TURN_IS_DUE or self._is_blocked():
            return
        if self._frames:
            self._schedule()
        else:
            self._continue()

    def admit(self, principal: str) -> None:
        self.principal = principal
        assert self._login is not None, "no login is due"
        self._login.end()
        self._login = None

    def hold(self) -> None:
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if not self._holds and self._life is not LOST:
            # Until now they waited for their own client: for its large request, or for its quota.
            self.waiting_since = monotonic() if self._frames else 0.0
            self._loop.call_soon(self._resume)

    def _pause_reading(self) -> None:
        if self._input is READING and self._life is OPEN:
            self._input = READING_PAUSED[self._input]
            self._transport.pause_reading()

    # --- answers ------------------------------------------------------------------------------------------

    def _enqueue(self, answer: Frame | Pending[Frame | None], request: memoryview) -> None:
        """Queue an answer behind those of earlier requests, or send it when there are none."""
        if type(answer) is Pending:
            queued = QueuedAnswer()
            queued.pending = answer
            queued.head = request[:_HEAD_BYTES].tobytes()
            request_bytes = len(request)
            if request_bytes >= REQUEST_BYTES_COUNTED_MIN:
                queued.request_bytes = request_bytes
                self._pending_bytes += request_bytes
            self._answers.append(queued)
            answer.start(self._tasks, partial(self._take_answer, queued))
            return
        assert not isinstance(answer, Pending)
        if not self._answers:
            self._add_to_output(answer)
            self._pump()
            if self._out or self._output is not FLOWING:
                self._begin_unsent(request[:_HEAD_BYTES].tobytes())
            return
        queued = QueuedAnswer()
        queued.head = request[:_HEAD_BYTES].tobytes()
        self._answers.append(queued)
        queued.make_ready(answer)
        self._queued_bytes += queued.bytes

    def _take_answer(self, queued: QueuedAnswer, pending: Pending[Frame | None]) -> None:
        try:
            frame = pending.result()
        except asyncio.CancelledError:
            if self._life is OPEN:
                self._fail(OdradekError("the answer to a request was cancelled"))
            return
        except Exception as failure:
            self._fail(failure)
            return
        if self._life is LOST:
            return
        queued.pending = None
        if queued.request_bytes:
            self._pending_bytes -= queued.request_bytes
            self._account()
        answers = self._answers
        if not answers or answers[0] is not queued:
            queued.make_ready(frame)
            self._queued_bytes += queued.bytes
            return
        answers.popleft()
        if frame is not None:
            self._add_to_output(frame)
        while answers and answers[0].is_ready:
            first = answers.popleft()
            self._queued_bytes -= first.bytes
            if first.frame is not None:
                self._add_to_output(first.frame)
        self._pump()
        if self._out or self._output is not FLOWING:
            self._begin_unsent(queued.head)
        self._resume()
        if self._life is CLOSING:
            self._close_when_done()

    def _add_to_output(self, frame: Frame) -> None:
        if isinstance(frame, list):
            self._out.extend(frame)
        else:
            self._out.append(frame)

    def _send_ready(self, ready: list[bytes], ready_bytes: int) -> None:
        if self._out or self._output is not FLOWING:
            self._out.extend(ready)
            self._pump()
            return
        self.bytes_out += ready_bytes
        if len(ready) == 1:
            self._transport.write(ready[0])
        elif ready_bytes <= _JOINED_BYTES_MAX:
            self._transport.write(b"".join(ready))
        else:
            self._transport.writelines(ready)

    def _pump(self) -> None:
        """Hand queued answers to the transport until its buffer is full or this connection's turn is over."""
        out = self._out
        sent_in_turn = 0
        while out and self._output is FLOWING and self._life is not LOST:
            if sent_in_turn >= SENT_BYTES_PER_TURN_MAX:
                self._output = TURN_ENDED[self._output]
                self._loop.call_soon(self._pump_again)
                return
            try:
                sent = self._source.send_next(out, self._end_load)
            except OSError as failure:
                self._fail(failure)
                return
            if sent < 0:
                self._output = LOAD_BEGUN[self._output]
                return
            sent_in_turn += sent + SENT_PART_BYTES
            self.bytes_out += sent
            self.is_active = True
        if self._unsent_since and not out and self._output is FLOWING:
            self._end_unsent()

    def _begin_unsent(self, head: bytes) -> None:
        """Note since when the answer to the request that begins so waits to be sent, unless an earlier one does."""
        if not self._unsent_since and self._sends is not None:
            self._unsent_since = monotonic()
            self._unsent_head = head

    def _end_unsent(self) -> None:
        seconds = monotonic() - self._unsent_since
        self._unsent_since = 0.0
        if self._sends is not None and seconds > self._sends.slow_seconds:
            self._sends.note_slow_send(self, self._unsent_head, seconds)

    def _pump_again(self) -> None:
        self._output = TURN_BEGUN[self._output]
        if self._life is LOST:
            return
        self._pump()
        self._resume()
        self._close_when_done()

    def _end_load(self, failure: BaseException | None) -> None:
        """The thread has replaced the slice at the head of `_out` with bytes, or failed."""
        self._output = LOAD_ENDED[self._output]
        if self._life is LOST:
            return
        if failure is not None:
            self._fail(failure)
            return
        self._pump()
        self._resume()
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._life is not CLOSING or self._is_dispatching or self._answers or self._out:
            return
        if self._transport is not None:
            self._transport.close()

    # --- memory -------------------------------------------------------------------------------------------

    def _account(self, *, is_next_request: bool = False) -> None:
        """Note what this connection's requests take, and stop reading where that is too much."""
        if not self._frames:
            self._frames_bytes = 0
        held = self._reader.bytes_held + self._frames_bytes + self._pending_bytes
        if self._life is not OPEN or (held == self._held and not (held and is_next_request)):
            return
        self._held = held
        if self._memory.note(self, held, is_next_request=is_next_request):
            self._input = MEMORY_FREE[self._input]
        else:
            self._pause_reading()
            self._input = MEMORY_SHORT[self._input]

    def is_receiving(self) -> bool:
        return self._reader.bytes_held > 0 and not self._frames and not self._pending_bytes

    def read_again(self) -> None:
        self._input = MEMORY_FREE[self._input]
        self._resume()
