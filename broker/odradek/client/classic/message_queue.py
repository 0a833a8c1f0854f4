"""The messages that wait in an asynchronous producer. Both faces keep them here: no thread, no task, no wait.

A batch is due when `batch.size` messages wait, or the oldest of them has waited for `queue.time`. As many messages as
the queue holds may be under way besides, so that those of one partition do not wait for another's. What cannot be sent
is logged, counted, and raised by the next `flush` or `close`.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence

from odradek.client.classic.errors import FailedToSendMessageException, QueueClosedException
from odradek.client.classic.messages import KeyedMessage
from odradek.client.classic.properties import Properties
from odradek.foundation.client_limits import PRODUCER_QUEUE_FAILURES_MAX, PRODUCER_TOPICS_NAMED_MAX

logger = logging.getLogger(__name__)


class MessageQueue:
    """A bounded queue. With threads every call needs one lock. `clock` gives seconds."""

    def __init__(self, properties: Properties, clock: Callable[[], float]) -> None:
        self.size_max: int = properties["queue.buffering.max.messages"]
        self._seconds_max = properties["queue.buffering.max.ms"] / 1000
        self.batch_size: int = min(properties["batch.num.messages"], self.size_max)
        timeout_ms = properties["queue.enqueue.timeout.ms"]
        self.wait_seconds_max: float | None = None if timeout_ms < 0 else timeout_ms / 1000
        self._clock = clock
        self.messages: deque[KeyedMessage] = deque()
        self._oldest_at = 0.0
        self._added = self._taken = self._flush_to = 0
        # The messages under way, by the number of their batch's first one. Batches end in any order.
        self._under_way: dict[int, int] = {}
        self.under_way_count = 0
        """The messages that were taken, and are neither written nor failed."""
        self._failures: list[tuple[object, Exception]] = []
        self.failed_count = 0
        """The number of messages that were not written."""
        self.is_closed = False

    def add(self, message: KeyedMessage) -> bool:
        """Add a message if there is room. Raises QueueClosedException."""
        if self.is_closed:
            raise QueueClosedException("the producer is closed, and takes no more messages")
        if len(self.messages) >= self.size_max:
            return False
        if not self.messages:
            self._oldest_at = self._clock()
        self.messages.append(message)
        self._added += 1
        return True

    def flush(self) -> Callable[[], bool]:
        """Make all messages so far due. The function returns whether they are finished."""
        target = self._flush_to = self._added
        return lambda: self.finished_count >= target

    @property
    def finished_count(self) -> int:
        """How many of the first messages are all written, or have failed."""
        return next(iter(self._under_way), self._taken)

    def seconds_until_due(self) -> float | None:
        """The seconds until the next batch may be sent; None without a message, or with too many under way."""
        if not self.messages or self.under_way_count >= self.size_max:
            return None
        is_due = len(self.messages) >= self.batch_size or self.is_closed or self._taken < self._flush_to
        return 0.0 if is_due else self._oldest_at + self._seconds_max - self._clock()

    def take(self) -> tuple[int, list[KeyedMessage]]:
        """The next batch, and its number for `finish`."""
        count = min(len(self.messages), self.batch_size)
        taken = [self.messages.popleft() for _ in range(count)]
        self._oldest_at = self._clock()
        number = self._taken
        self._taken += count
        self._under_way[number] = count
        self.under_way_count += count
        return number, taken

    def finish(self, number: int, count: int) -> None:
        """So many messages of a batch are written or have failed."""
        self.under_way_count -= count
        self._under_way[number] -= count
        if not self._under_way[number]:
            del self._under_way[number]

    def note(self, failures: Sequence[tuple[object, Exception]]) -> None:
        """Keep failures for `raise_failures`, as many as the limit allows."""
        logger.error("%d messages were not written: %s", len(failures), failures[0][1] if failures else "?")
        self.failed_count += len(failures)
        self._failures += failures[: max(PRODUCER_QUEUE_FAILURES_MAX - len(self._failures), 0)]

    def describe_unfinished(self) -> str:
        """What was taken and is not written yet, by topics, for a message; empty if there is nothing."""
        waiting = Counter(message.topic for message in self.messages)
        names = ", ".join(
            f"{count} for topic {topic}" for topic, count in waiting.most_common(PRODUCER_TOPICS_NAMED_MAX)
        )
        parts = [f"{names} in the queue"] if names else []
        if self.under_way_count:
            parts.append(f"{self.under_way_count} under way")
        return " and ".join(parts)

    def raise_failures(self) -> None:
        """Raise FailedToSendMessageException with the failures since the last call, if there are any."""
        failures, self._failures = self._failures, []
        if failures:
            raise FailedToSendMessageException(
                f"{len(failures)} messages were not written since the last flush; the first reason: {failures[0][1]}",
                failures,
            ) from failures[0][1]
