"""What becomes of records that cannot be processed, where their group has a dead-letter topic (KIP-1191).

    share-partition -> `DeadLetterQueue` -> `DeadLetters` -> the dead-letter topic
    archiving                                               then archived

A queue belongs to one share-partition. It sends what waits together, one bounded part after the other, so that a topic
that cannot be written holds up no other share-partition. Letters stay with their share-partition until their records
are archived: a new leader finds them in the stored states and sends them again.

What it leaves out: the topic and its records (`dead_letter_writer`), and how records are archived (`acknowledgement`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from odradek.broker.share_states.states import ShareKey
from odradek.broker.shares.acknowledgement import DeadLetter
from odradek.foundation.limits import DEAD_LETTERS_AT_ONCE_MAX, DEAD_LETTERS_WAITING_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.tasks import TaskOwner

logger = logging.getLogger(__name__)


class UndeliverableRange(NamedTuple):
    """Neighbouring records that a member rejected, or that were delivered too often."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class UndeliverableRecords(NamedTuple):
    """Such records of one share-partition, in the order in which they became undeliverable."""

    key: ShareKey
    topic: str
    ranges: Sequence[UndeliverableRange]


class DeadLetters(Protocol):
    """Writes to the dead-letter topic that the group names in errors.deadletterqueue.topic.name."""

    async def send(self, records: UndeliverableRecords) -> None:
        """Return once the records are there, or never can be; until then try again. Raises nothing."""
        ...


class DeadLetterQueue:
    """The dead letters of one share-partition. `on_sent` archives what was sent, and calls `finish` when that is done.

    Its length is bounded by the records in flight, and by those that the log has deleted since.
    """

    def __init__(
        self,
        key: ShareKey,
        topic: str,
        *,
        dead_letters: DeadLetters,
        tasks: TaskOwner,
        on_sent: Callable[[Sequence[DeadLetter]], None],
    ) -> None:
        self._key = key
        self._topic = topic
        self._dead_letters = dead_letters
        self._tasks = tasks
        self._on_sent = on_sent
        self._waiting: deque[DeadLetter] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self.under_way = 0
        """Records that are not archived yet."""

    def add(self, letters: Sequence[DeadLetter]) -> None:
        """Send the letters, behind those that wait."""
        if not letters or self._is_closed or self._tasks.is_closed:
            return
        self.under_way += _count_records(letters)
        self._waiting.extend(letters)
        if self.under_way > DEAD_LETTERS_WAITING_MAX:
            self._leave_out_deleted()
        if self._task is None:
            self._task = self._tasks.start(self._send_all(), name=f"dead letters {self._key.coordinator_key}")

    def finish(self, letters: Sequence[DeadLetter]) -> None:
        """The records of these letters are archived."""
        self.under_way -= _count_records(letters)

    def close(self) -> None:
        """Send nothing any more: what is left is the next leader's."""
        self._is_closed = True
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                taken = self._take()
                ranges = [UndeliverableRange(*letter[1:]) for letter in taken]
                await self._dead_letters.send(UndeliverableRecords(self._key, self._topic, ranges))
                self._on_sent(taken)
        finally:
            self._task = None

    def _leave_out_deleted(self) -> None:
        """Keep the letters of records that are still there: those are in flight, and so they are few."""
        deleted = [letter for letter in self._waiting if not len(letter.run)]
        if not deleted:
            return
        self._waiting = deque(letter for letter in self._waiting if len(letter.run))
        self.finish(deleted)
        logger.warning(
            "%d records that %s has deleted have no dead letters of %s: the topic of these cannot be written",
            *(_count_records(deleted), self._topic, self._key.group_id),
        )

    def _take(self) -> list[DeadLetter]:
        """The letters of the next part: one at least, and then as many as its bound of records allows."""
        taken: list[DeadLetter] = []
        count = 0
        while self._waiting:
            letter = self._waiting[0]
            count += letter.last - letter.first + 1
            if taken and count > DEAD_LETTERS_AT_ONCE_MAX:
                break
            taken.append(self._waiting.popleft())
        return taken


def _count_records(letters: Iterable[DeadLetter]) -> int:
    return sum(letter.last - letter.first + 1 for letter in letters)
