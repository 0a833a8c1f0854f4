"""One connection of a client: frames in, answers out in the order of the requests.

    buffer_updated -> FrameReader -> dispatch -> immediate answer -> joined with others of this turn, one write
                                              -> pending answer   -> queued until all earlier answers are ready

A turn of the loop answers a bounded number of frames. The rest waits, and reading pauses. Reading also pauses at the
bound of unanswered requests, and while the peer does not read its answers. TCP then pushes back on the sender, so a
connection takes bounded memory for any behaviour of its peer.

File slices are loaded when the socket has room: from the page cache at once, from the device on a thread
while the connection waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.foundation.errors import OdradekError
from odradek.foundation.limits import (
    REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX,
    REQUESTS_PER_TURN_MAX,
    RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX,
    SENT_BYTES_PER_TURN_MAX,
)
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.tasks import TaskOwner
from odradek.protocol.frames import Frame
from odradek.protocol.framing import FrameReader
from odradek.transport.connection import Connection, Dispatch, log_failure
from odradek.transport.login_bounds import LoginBounds, PendingLogin
from odradek.transport.pending import Pending, QueuedAnswer
from odradek.transport.sendfile import PartSource, Unsent

if TYPE_CHECKING:
    from odradek.transport.muting import Mute

# Answers of one turn up to this many bytes are joined into one write; larger ones are written without a copy.
_JOINED_BYTES_MAX: Final = 64 * 1024


class InboundConnection(Connection, asyncio.BufferedProtocol):
    """The protocol object of an accepted connection.

    `on_made` and `on_lost` are called with the connection when it begins and, once, when it has ended.
    """

    __slots__ = (
        "_answers",
        "_dispatch",
        "_frames",
        "_holds",
        "_is_closing",
        "_is_dispatching",
        "_is_loading",
        "_is_pumping_later",
        "_is_reading_paused",
        "_is_scheduled",
        "_is_writing_paused",
        "_lines",
        "_login",
        "_loop",
        "_mute",
        "_on_lost",
        "_on_made",
        "_out",
        "_reader",
        "_source",
        "_tasks",
        "_transport",
        "admitted_ip",
        "is_active",
        "is_lost",
    )

    def __init__(
        self,
        *,
        id: int,
        listener_name: str,
        dispatch: Dispatch,
        frame_bytes_max: int,
        receive_buffer: memoryview,
        lines: RateLimitedLog,
        on_made: Callable[[InboundConnection], None],
        on_lost: Callable[[InboundConnection], None],
        tasks: TaskOwner,
        admitted_ip: str = "",
        executor: Executor | None = None,
        sendfile: bool = False,
        login: LoginBounds | None = None,
    ) -> None:
        super().__init__(id=id, listener_name=listener_name)
        self._loop = asyncio.get_running_loop()
        self._dispatch = dispatch
        self._reader = FrameReader(frame_bytes_max, receive_buffer)
        self._login = None if login is None else PendingLogin(login, self._reader, on_late=self._fail)
        self._lines = lines
        self._tasks = tasks
        self.admitted_ip = admitted_ip
        self._on_made = on_made
        self._on_lost = on_lost
        self._source = PartSource(executor=executor, sendfile=sendfile)
        self._transport: Any = None
        self._frames: deque[memoryview] = deque()  # received, not yet dispatched
        self._answers: deque[QueuedAnswer] = deque()  # from the first request that is not answered yet
        self._out: deque[Unsent] = deque()  # due, not yet with the transport
        self._holds = 0  # requests that none may overtake, and a mute
        self._mute: Mute | None = None
        self._is_closing = False
        self._is_dispatching = False  # a handler may close the connection and still answer
        self._is_loading = False  # a thread reads the slice at the head of `_out`
        self._is_pumping_later = False  # the next turn sends more
        self._is_reading_paused = False
        self._is_scheduled = False
        self._is_writing_paused = False
        self.is_active = True
        """Set by every byte received or sent; the listener's sweep clears it."""
        self.is_lost = False

    # --- what the transport calls -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(Any, transport)
        self.peer = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.local = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self._source.prepare(self._transport, unsent_max=RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX)
        self._on_made(self)

    def connection_lost(self, failure: Exception | None) -> None:
        self.is_lost = True
        self._is_closing = True
        if self._mute is not None:
            self._mute.cancel()
        if self._login is not None:
            self._login.end()
        self._drop()
        self._on_lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        self.is_active = True
        if self._is_closing:
            return
        frames = self._reader.received(nbytes)
        if frames:
            if self._frames or self._holds:
                self._frames.extend(frames)
            else:
                self._answer(frames)
        # Of two wrong frames in one read, the first has ended the connection and is in the log.
        if self._reader.failure is not None and not self._frames and not self._is_closing:
            self._fail(self._reader.failure)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self.is_active = True
        if self._out:
            self._pump()
        self._resume()

    # --- requests -----------------------------------------------------------------------------------------

    def _answer(self, frames: list[memoryview]) -> None:
        """Dispatch `frames` in order, and send the immediate answers with one write."""
        turn_max = REQUESTS_PER_TURN_MAX if self._login is None else 1
        if len(frames) > turn_max:
            self._frames.extend(frames[turn_max:])
            del frames[turn_max:]
        dispatch = self._dispatch
        answers = self._answers
        ready: list[bytes] = []
        count = ready_bytes = 0
        failure: Exception | None = None
        self._is_dispatching = True
        for frame in frames:
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
                    self._is_closing or self._holds
                ):
                    continue
            elif reply is None and not self._holds:
                continue
            if ready:
                self._send_ready(ready, ready_bytes)
                ready, ready_bytes = [], 0
            if reply is not None and (type(reply) is not bytes or answers):
                self._enqueue(reply)
            if self._is_blocked():
                break
        self._is_dispatching = False
        self.requests += count
        if ready:
            self._send_ready(ready, ready_bytes)
        if failure is not None:
            self._fail(failure)
            return
        if self._is_closing:
            self._close_when_done()
            return
        if count < len(frames):
            self._frames.extendleft(reversed(frames[count:]))
        if self._frames or self._is_blocked():
            self._pause_reading()
            self._schedule()

    def _is_blocked(self) -> bool:
        return (
            self._is_writing_paused
            or self._is_loading
            or self._is_pumping_later
            or self._holds > 0
            or len(self._answers) >= REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
            or self._is_closing
        )

    def _schedule(self) -> None:
        """Answer, in the next turn, frames that nothing else delays."""
        if self._frames and not self._is_scheduled and not self._is_blocked():
            self._is_scheduled = True
            self._loop.call_soon(self._scheduled)

    def _scheduled(self) -> None:
        self._is_scheduled = False
        self._resume()

    def _resume(self) -> None:
        """Answer frames that waited, or read again when none are left."""
        if self._is_scheduled or self._is_blocked():
            return
        if self._frames:
            frames = list(self._frames)
            self._frames.clear()
            self._answer(frames)
        if self._frames or self._is_blocked():
            return
        if self._reader.failure is not None:
            self._fail(self._reader.failure)
        elif self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def admit(self, principal: str) -> None:
        self.principal = principal
        assert self._login is not None, "no login is due"
        self._login.end()
        self._login = None

    def hold(self) -> None:
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if not self._holds and not self.is_lost:
            self._loop.call_soon(self._resume)

    def mute(self, milliseconds: int, still_due_ms: Callable[[], int]) -> None:
        if self._mute is None:
            from odradek.transport.muting import Mute

            self._mute = Mute(self._transport, self._unmuted)
            self._holds += 1
            self._pause_reading()
        self._mute.extend(milliseconds, still_due_ms)

    def _unmuted(self, is_peer_gone: bool) -> None:
        self._mute = None
        if is_peer_gone:
            self.abort()
        self.release()

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self._is_closing:
            self._is_reading_paused = True
            self._transport.pause_reading()

    # --- answers ------------------------------------------------------------------------------------------

    def _enqueue(self, answer: Frame | Pending[Frame | None]) -> None:
        """Queue an answer behind those of earlier requests, or send it when there are none."""
        if type(answer) is Pending:
            queued = QueuedAnswer()
            queued.pending = answer
            self._answers.append(queued)
            answer.start(self._tasks)
            answer.when_settled(lambda pending: self._settled(queued, pending))
            return
        assert not isinstance(answer, Pending)
        if not self._answers:
            self._add_to_output(answer)
            self._pump()
            return
        queued = QueuedAnswer()
        queued.frame = answer
        queued.is_ready = True
        self._answers.append(queued)

    def _settled(self, queued: QueuedAnswer, pending: Pending[Frame | None]) -> None:
        if pending.cancelled():
            if not self._is_closing:
                self._fail(OdradekError("the answer to a request was cancelled"))
            return
        try:
            frame = pending.result()
        except Exception as failure:
            self._fail(failure)
            return
        if self.is_lost:
            return
        queued.pending = None
        queued.frame = frame
        queued.is_ready = True
        answers = self._answers
        if not answers or answers[0] is not queued:
            return
        while answers and answers[0].is_ready:
            frame = answers.popleft().frame
            if frame is not None:
                self._add_to_output(frame)
        self._pump()
        self._resume()
        self._close_when_done()

    def _add_to_output(self, frame: Frame) -> None:
        if isinstance(frame, list):
            self._out.extend(frame)
        else:
            self._out.append(frame)

    def _send_ready(self, ready: list[bytes], ready_bytes: int) -> None:
        if self._out or self._is_writing_paused or self._is_loading:
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
        while out and not self._is_writing_paused and not self._is_loading and not self.is_lost:
            if self._is_pumping_later:
                return
            if sent_in_turn >= SENT_BYTES_PER_TURN_MAX:
                self._is_pumping_later = True
                self._loop.call_soon(self._pump_again)
                return
            try:
                sent = self._source.send_next(out, self._loaded)
            except OSError as failure:
                self._fail(failure)
                return
            if sent < 0:
                self._is_loading = True
                return
            sent_in_turn += sent
            self.bytes_out += sent
            self.is_active = True

    def _pump_again(self) -> None:
        self._is_pumping_later = False
        if self.is_lost:
            return
        self._pump()
        self._resume()
        self._close_when_done()

    def _loaded(self, failure: BaseException | None) -> None:
        """The thread has replaced the slice at the head of `_out` with bytes, or failed."""
        self._is_loading = False
        if self.is_lost:
            return
        if failure is not None:
            self._fail(failure)
            return
        self._pump()
        self._resume()
        self._close_when_done()

    # --- the end ------------------------------------------------------------------------------------------

    def is_waiting_for_handlers(self) -> bool:
        """Whether a request is under way, or a mute: such a connection is not idle, however quiet it is."""
        return bool(self._answers) or self._mute is not None

    def close(self) -> None:
        """Close after all due answers are sent; requests that are not dispatched yet are dropped."""
        if not self._is_closing:
            self._pause_reading()
            self._is_closing = True
            self._frames.clear()
        self._close_when_done()

    def abort(self) -> None:
        """Close at once; what is unsent is lost."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    def _close_when_done(self) -> None:
        if not self._is_closing or self._is_dispatching or self._answers or self._out or self.is_lost:
            return
        if self._transport is not None:
            self._transport.close()

    def _fail(self, failure: BaseException) -> None:
        """End this connection because of a wrong frame or a failed handler. Written answers are still sent."""
        if self.is_lost:
            return
        self._is_closing = True
        log_failure(self, failure, self._lines)
        self._drop()
        self._transport.close()

    def _drop(self) -> None:
        """Drop received frames and queued answers. Pending answers are cancelled; tasks run to their end."""
        self._frames.clear()
        self._out.clear()
        answers, self._answers = self._answers, deque()
        for queued in answers:
            if queued.pending is not None:
                queued.pending.cancel()
