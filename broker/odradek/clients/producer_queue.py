"""The queue of an asynchronous producer, and the thread that sends its batches (kafka.producer.async of 0.7).

A batch is due when `batch.size` messages wait, or the oldest of them has waited for `queue.time`. What cannot be sent
is logged, counted, and raised by the next `flush` or `close`.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from odradek.clients.errors import (
    FailedToSendMessageException,
    QueueClosedException,
    QueueFullException,
)
from odradek.clients.messages import CallbackHandler, EventHandler, KeyedMessage
from odradek.clients.properties import Properties
from odradek.foundation.limits import PRODUCER_QUEUE_EXIT_SECONDS_MAX, PRODUCER_QUEUE_FAILURES_MAX

logger = logging.getLogger(__name__)

# A wait in slices, so that Ctrl-C reaches it on every platform.
_SLICE_SECONDS: Final = 0.2


class ProducerQueue:
    """A bounded queue and one daemon thread. `failed_count` is the number of messages that were not written."""

    def __init__(self, properties: Properties, handler: EventHandler, callbacks: CallbackHandler) -> None:
        self._size_max: int = properties["queue.buffering.max.messages"]
        self._seconds_max = properties["queue.buffering.max.ms"] / 1000
        self._batch_size: int = min(properties["batch.num.messages"], self._size_max)
        timeout_ms = properties["queue.enqueue.timeout.ms"]
        self._wait_seconds_max = None if timeout_ms < 0 else timeout_ms / 1000
        self._handler = handler
        self._callbacks = callbacks
        self._queue: deque[KeyedMessage] = deque()
        lock = threading.Lock()
        self._is_due = threading.Condition(lock)
        self._has_room = threading.Condition(lock)
        self._has_sent = threading.Condition(lock)
        self._oldest_at = 0.0
        self._added = 0
        self._finished = 0
        self._flush_to = 0
        self._closing = False
        self._failures: list[tuple[object, Exception]] = []
        self.failed_count = 0
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._run, name="ProducerSendThread", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def put(self, event: KeyedMessage) -> None:
        """Add a message. Raises QueueFullException as `queue.enqueueTimeout.ms` says, and QueueClosedException."""
        self._check_process()
        event = self._callbacks.before_enqueue(event)
        with self._has_room:
            added = self._wait_for_room()
            if added:
                if not self._queue:
                    self._oldest_at = time.monotonic()
                    self._is_due.notify()
                self._queue.append(event)
                self._added += 1
                if len(self._queue) == self._batch_size:
                    self._is_due.notify()
        self._callbacks.after_enqueue(event, added)
        if not added:
            raise QueueFullException(
                f"the producer's queue is full with {self._size_max} messages (queue.size): this one was not taken; "
                "send less, or let queue.enqueueTimeout.ms wait for room"
            )

    def _check_process(self) -> None:
        """Raise RuntimeError after a fork: its thread is the parent's, and its lock may be held for ever."""
        if os.getpid() != self._process_id:
            raise RuntimeError("this producer was made before a fork; make another in the new process")

    def _wait_for_room(self) -> bool:
        """Whether there is room before the timeout; the lock is held."""
        deadline = None if self._wait_seconds_max is None else time.monotonic() + self._wait_seconds_max
        while True:
            if self._closing:
                raise QueueClosedException("the producer is closed, and takes no more messages")
            if len(self._queue) < self._size_max:
                return True
            left = _SLICE_SECONDS if deadline is None else min(_SLICE_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return False
            self._has_room.wait(left)

    @property
    def waiting_count(self) -> int:
        """The messages in the queue now."""
        return len(self._queue)

    def flush(self) -> None:
        """Send what waits, and wait until it is sent. Raises FailedToSendMessageException for all failures so far."""
        self._check_process()
        with self._has_sent:
            target = self._flush_to = self._added
            self._is_due.notify()
            while self._finished < target and self._thread.is_alive():
                self._has_sent.wait(_SLICE_SECONDS)
        self._raise_failures()

    def close(self, *, seconds_max: float | None = None) -> None:
        """Send what waits, end the thread. Raises as `flush`. In a forked process all is left to the parent."""
        if os.getpid() != self._process_id:
            return
        with self._is_due:
            self._closing = True
            self._is_due.notify_all()
            self._has_room.notify_all()
        atexit.unregister(self._at_exit)
        deadline = None if seconds_max is None else time.monotonic() + seconds_max
        while self._thread.is_alive() and (deadline is None or time.monotonic() < deadline):
            self._thread.join(_SLICE_SECONDS)
        if self._thread.is_alive():
            logger.error("%d messages may be lost: the producer had no time to send them", self.waiting_count)
        self._raise_failures()

    def _at_exit(self) -> None:
        """The program ends without `close`."""
        if os.getpid() == self._process_id and self._thread.is_alive():
            try:
                self.close(seconds_max=PRODUCER_QUEUE_EXIT_SECONDS_MAX)
            except FailedToSendMessageException as failure:
                logger.error("%s", failure)

    def _raise_failures(self) -> None:
        with self._is_due:
            failures, self._failures = self._failures, []
        if failures:
            raise FailedToSendMessageException(
                f"{len(failures)} messages were not written since the last flush; the first reason: {failures[0][1]}",
                failures,
            ) from failures[0][1]

    # --- the sending thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                self._send(taken, count=len(taken))
            last = list(self._callbacks.last_batch_before_close())
            if last:
                self._send(last, count=0)
            self._callbacks.close()
        except Exception:
            logger.exception("a callback handler ended the producer's thread")
        finally:
            self._end()

    def _end(self) -> None:
        with self._is_due:
            self._closing = True
            lost, self._queue = list(self._queue), deque()
            self._has_room.notify_all()
            self._has_sent.notify_all()
        if lost:
            self._note_failure(lost, QueueClosedException("the producer's thread ended before it was sent"))
        self._handler.close()

    def _take(self) -> list[KeyedMessage] | None:
        """The next batch; None when the queue is closed and empty."""
        with self._is_due:
            while not self._may_send():
                if self._closing:
                    return None
                left = self._oldest_at + self._seconds_max - time.monotonic() if self._queue else None
                self._is_due.wait(left)
            count = min(len(self._queue), self._batch_size)
            taken = [self._queue.popleft() for _ in range(count)]
            self._oldest_at = time.monotonic()
            self._has_room.notify_all()
            return taken

    def _may_send(self) -> bool:
        if not self._queue:
            return False
        return (
            len(self._queue) >= self._batch_size
            or self._closing
            or self._finished < self._flush_to
            or time.monotonic() - self._oldest_at >= self._seconds_max
        )

    def _send(self, taken: Sequence[KeyedMessage], *, count: int) -> None:
        events: Sequence[KeyedMessage] = taken
        try:
            events = self._callbacks.before_sending_data(self._dequeued(taken) if count else taken)
            if events:
                self._handler.handle(events)
        except FailedToSendMessageException as failure:
            self._note_failures(failure.failures or [(event, failure) for event in events])
        except Exception as failure:
            self._note_failure(events, failure)
        finally:
            with self._has_sent:
                self._finished += count
                self._has_sent.notify_all()

    def _dequeued(self, taken: Sequence[KeyedMessage]) -> list[KeyedMessage]:
        dequeued = self._callbacks.after_dequeuing_existing_data
        events = [one for event in taken for one in dequeued(event)]
        if len(taken) < self._batch_size:
            events += dequeued(None)
        return events

    def _note_failure(self, events: Sequence[object], failure: Exception) -> None:
        self._note_failures([(event, failure) for event in events])

    def _note_failures(self, failures: Sequence[tuple[object, Exception]]) -> None:
        logger.error("%d messages were not written: %s", len(failures), failures[0][1] if failures else "?")
        with self._is_due:
            self.failed_count += len(failures)
            room = PRODUCER_QUEUE_FAILURES_MAX - len(self._failures)
            self._failures += failures[: max(room, 0)]
