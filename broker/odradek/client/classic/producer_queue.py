"""The thread that sends the batches of an asynchronous producer (kafka.producer.async of 0.7), and its queue."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Final

from odradek.client.classic.background_sender import BackgroundSender
from odradek.client.classic.errors import (
    FailedToSendMessageException,
    QueueClosedException,
    QueueFullException,
)
from odradek.client.classic.message_queue import MessageQueue
from odradek.client.classic.message_sender import Note
from odradek.client.classic.messages import CallbackHandler, EventHandler, KeyedMessage
from odradek.client.classic.properties import Properties
from odradek.client.own_loops import warn_unclosed
from odradek.foundation.client_limits import PRODUCER_QUEUE_EXIT_SECONDS_MAX

logger = logging.getLogger(__name__)

# A wait in slices, so that Ctrl-C reaches it on every platform.
_SLICE_SECONDS: Final = 0.2


class ProducerQueue:
    """A bounded queue and one daemon thread."""

    def __init__(
        self, properties: Properties, handler: EventHandler | BackgroundSender, callbacks: CallbackHandler
    ) -> None:
        self._queue = MessageQueue(properties, time.monotonic)
        self._handler = handler
        self._callbacks = callbacks
        lock = threading.Lock()
        self._is_due = threading.Condition(lock)
        self._has_room = threading.Condition(lock)
        self._has_sent = threading.Condition(lock)
        self._last_count = 0  # of the last batch, those under way
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._run, name="ProducerSendThread", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def put(self, event: KeyedMessage) -> None:
        """Add a message. Raises QueueFullException as `queue.enqueueTimeout.ms` says, and QueueClosedException."""
        self._check_process()
        event = self._callbacks.before_enqueue(event)
        with self._has_room:
            added = self._queue.add(event) or self._add_with_room(event)
            if added and len(self._queue.messages) in (1, self._queue.batch_size):
                self._is_due.notify()
        self._callbacks.after_enqueue(event, added)
        if not added:
            raise QueueFullException(
                f"the producer's queue is full with {self._queue.size_max} messages (queue.size): this one was not "
                "taken; send less, or let queue.enqueueTimeout.ms wait for room"
            )

    def _check_process(self) -> None:
        """Raise RuntimeError after a fork: its thread is the parent's, and its lock may be held for ever."""
        if os.getpid() != self._process_id:
            raise RuntimeError("this producer was made before a fork; make another in the new process")

    def _add_with_room(self, event: KeyedMessage) -> bool:
        """Wait for room, and add the message unless the timeout passes; the lock is held."""
        seconds_max = self._queue.wait_seconds_max
        deadline = None if seconds_max is None else time.monotonic() + seconds_max
        while not self._queue.add(event):
            left = _SLICE_SECONDS if deadline is None else min(_SLICE_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return False
            self._has_room.wait(left)
        return True

    @property
    def waiting_count(self) -> int:
        """The messages in the queue now."""
        return len(self._queue.messages)

    @property
    def failed_count(self) -> int:
        """The number of messages that were not written."""
        return self._queue.failed_count

    def flush(self) -> None:
        """Send what waits, and wait until it is sent. Raises FailedToSendMessageException for all failures so far."""
        self._check_process()
        with self._has_sent:
            is_finished = self._queue.flush()
            self._is_due.notify()
            while not is_finished() and self._thread.is_alive():
                self._has_sent.wait(_SLICE_SECONDS)
        self._raise_failures()

    def close(self, *, seconds_max: float | None = None) -> None:
        """Send what waits, end the thread. Raises as `flush`. In a forked process all is left to the parent."""
        if os.getpid() != self._process_id:
            return
        with self._is_due:
            self._queue.is_closed = True
            self._is_due.notify_all()
            self._has_room.notify_all()
        atexit.unregister(self._at_exit)
        deadline = None if seconds_max is None else time.monotonic() + seconds_max
        while self._thread.is_alive() and (deadline is None or time.monotonic() < deadline):
            self._thread.join(_SLICE_SECONDS)
        if self._thread.is_alive():
            with self._is_due:
                unfinished = self._queue.describe_unfinished()
            logger.error("messages may be lost, since the producer had no time to send them: %s", unfinished)
        self._raise_failures()

    def _at_exit(self) -> None:
        """The program ends without `close`."""
        if os.getpid() == self._process_id and self._thread.is_alive():
            with self._is_due:
                taken = self._queue.describe_unfinished()
            what = (
                f"the end of the program waits for what it took: {taken}"
                if taken
                else "it had sent all it took"
            )
            try:
                warn_unclosed(f"an asynchronous Producer was not closed, and {what}")
            finally:
                self._close_at_exit()

    def _close_at_exit(self) -> None:
        try:
            self.close(seconds_max=PRODUCER_QUEUE_EXIT_SECONDS_MAX)
        except FailedToSendMessageException as failure:
            logger.error("%s", failure)

    def _raise_failures(self) -> None:
        with self._is_due:
            self._queue.raise_failures()

    # --- the sending thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (batch := self._take()) is not None:
                self._send(*batch)
            self._wait_until_written()
            last = list(self._callbacks.last_batch_before_close())
            if last:
                self._send_last(last)
                self._wait_until_written()
            self._callbacks.close()
        except Exception:
            logger.exception("a callback handler ended the producer's thread")
        finally:
            self._end()

    def _end(self) -> None:
        with self._is_due:
            self._queue.is_closed = True
            lost = [*self._queue.messages]
            self._queue.messages.clear()
            self._has_room.notify_all()
            self._has_sent.notify_all()
        if lost:
            reason = QueueClosedException("the producer's thread ended before it was sent")
            with self._is_due:
                self._queue.note([(event, reason) for event in lost])
        self._handler.close()

    def _wait_until_written(self) -> None:
        with self._has_sent:
            while self._queue.under_way_count or self._last_count:
                self._has_sent.wait(_SLICE_SECONDS)

    def _take(self) -> tuple[int, list[KeyedMessage]] | None:
        """The next batch and its number; None when the queue is closed and empty."""
        with self._is_due:
            while (left := self._queue.seconds_until_due()) is None or left > 0:
                if self._queue.is_closed and not self._queue.messages:
                    return None
                self._is_due.wait(left)
            self._has_room.notify_all()
            return self._queue.take()

    def _send(self, number: int, taken: Sequence[KeyedMessage]) -> None:
        """Send a batch, or what callbacks make of it: its messages are finished as those are."""
        left = unfinished = len(taken)

        def note(some: Sequence[KeyedMessage], failure: Exception | None) -> None:
            nonlocal left, unfinished
            with self._is_due:
                if failure is not None:
                    self._queue.note(_pair_failures(some, failure))
                left -= len(some)
                if left < unfinished:
                    self._queue.finish(number, unfinished - left)
                    unfinished = left
                    self._is_due.notify()
                    self._has_sent.notify_all()

        events: Sequence[KeyedMessage] = taken
        try:
            events = self._callbacks.before_sending_data(self._run_dequeue_callbacks(taken))
        except Exception as failure:
            note(taken, failure)
            return
        left = len(events)
        note((), None)  # callbacks may have left out some
        if events:
            self._hand_over(events, note)

    def _send_last(self, events: Sequence[KeyedMessage]) -> None:
        """Send what the callback gives at the end, which was in no queue."""
        self._last_count = len(events)

        def note(some: Sequence[KeyedMessage], failure: Exception | None) -> None:
            with self._is_due:
                if failure is not None:
                    self._queue.note(_pair_failures(some, failure))
                self._last_count -= len(some)
                self._has_sent.notify_all()

        try:
            events = self._callbacks.before_sending_data(events)
        except Exception as failure:
            note(events, failure)
            return
        self._last_count = len(events)
        if events:
            self._hand_over(events, note)

    def _hand_over(self, events: Sequence[KeyedMessage], note: Note) -> None:
        handler = self._handler
        if isinstance(handler, BackgroundSender):
            handler.submit(events, note)
            return
        try:
            handler.handle(events)
        except Exception as failure:
            note(events, failure)
        else:
            note(events, None)

    def _run_dequeue_callbacks(self, taken: Sequence[KeyedMessage]) -> list[KeyedMessage]:
        dequeued = self._callbacks.after_dequeuing_existing_data
        events = [one for event in taken for one in dequeued(event)]
        if len(taken) < self._queue.batch_size:
            events += dequeued(None)
        return events


def _pair_failures(events: Sequence[KeyedMessage], failure: Exception) -> Sequence[tuple[object, Exception]]:
    """Each message that failed with its reason; a handler may name fewer than it was given."""
    if isinstance(failure, FailedToSendMessageException) and failure.failures:
        return failure.failures
    return [(event, failure) for event in events]
