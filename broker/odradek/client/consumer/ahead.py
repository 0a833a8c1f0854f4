"""Records that are taken from a consumer's positions and handed out by another thread, one at a time.

The loop's thread fills it, and the thread of the program takes from it without a lock or a turn of the loop. A record
counts as read when it is taken here. So positions and commits are exact, although the records were taken together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.consumer.blocks import ConsumerRecord
from odradek.foundation.ids import TopicPartition


class NextRead(NamedTuple):
    """Where a partition continues: the offset of a record, and the leader epoch of the one before it, or -1."""

    offset: int
    epoch: int


class ReadAhead:
    """`lists` are the records of each block, by offset. Blocks of a partition are together. `epochs` has the leader
    epoch before the first record of each partition, as far as it is known.
    """

    __slots__ = ("_epochs", "_left", "_records", "_spans")

    def __init__(
        self, lists: Iterable[Sequence[ConsumerRecord]], epochs: Mapping[TopicPartition, int]
    ) -> None:
        self._records: list[ConsumerRecord] = []
        self._epochs = epochs
        self._spans: dict[TopicPartition, tuple[int, int]] = {}
        for records in lists:
            index = len(self._records)
            self._records += records
            start, _ = self._spans.get(key := _key_of(records[0]), (index, index))
            self._spans[key] = start, len(self._records)
        # The numbers of the records that no thread has taken. A deque's ends are safe to take from in any thread.
        self._left = deque(range(len(self._records)))

    @property
    def has_left(self) -> bool:
        """Whether there is a record that no thread has taken."""
        return bool(self._left)

    @property
    def records(self) -> Sequence[ConsumerRecord]:
        """All records, taken or not."""
        return self._records

    def replace_records(self, records: list[ConsumerRecord]) -> None:
        """Give out these in place of `records`, one for one, before any thread has taken one."""
        self._records = records

    def take(self) -> ConsumerRecord | None:
        """The next record, or None. Any thread may call it: each record is given once."""
        try:
            return self._records[self._left.popleft()]
        except IndexError:
            return None

    def take_many(self, count_max: int) -> list[ConsumerRecord]:
        """Up to `count_max` records."""
        taken: list[ConsumerRecord] = []
        while len(taken) < count_max and (record := self.take()) is not None:
            taken.append(record)
        return taken

    def find_next(self, partition: TopicPartition) -> NextRead | None:
        """Where the partition continues if some of its records are not taken, else None."""
        start, end = self._spans.get(partition, (0, 0))
        try:
            first = max(start, self._left[0])
        except IndexError:
            return None
        return self._next_read(first) if first < end else None

    def give_back(self) -> dict[TopicPartition, NextRead]:
        """Take what is left, and return where each partition of it continues."""
        given: dict[TopicPartition, NextRead] = {}
        while True:
            try:
                index = self._left.popleft()
            except IndexError:
                return given
            key = _key_of(self._records[index])
            if key not in given:
                given[key] = self._next_read(index)

    def _next_read(self, index: int) -> NextRead:
        record = self._records[index]
        key = _key_of(record)
        is_first = index == self._spans[key][0]
        epoch = self._epochs.get(key, -1) if is_first else self._records[index - 1].leader_epoch
        return NextRead(record.offset, epoch)


def _key_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


NOTHING_AHEAD = ReadAhead((), {})
