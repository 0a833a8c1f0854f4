"""Which records of one share-partition are in flight, sorted by their offsets.

    start_offset ... batches ... next_offset ... the log's end
    done below       in flight   never acquired

Batches lie in a list, with their first offsets beside them for binary search. Two heaps have what may be available and
which locks may end. Their entries are checked when they are taken, and a heap that has grown too long is made again.
So each operation costs what it names, not what is in flight.

What it leaves out: how records are acquired (`acquisition`), and how that ends (`acknowledgement`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from odradek.broker.share_states.states import StateRange
from odradek.broker.shares.runs import NO_LOCK, NO_MEMBER, TERMINAL, InFlightBatch, RecordRun, RecordState
from odradek.foundation.errors import CorruptRecord

# Entries of a heap that is not made again, however few runs there are.
_HEAP_ENTRIES_MIN: Final = 64
_STORED: Final = TERMINAL | {RecordState.AVAILABLE, RecordState.ARCHIVING}


class InFlight:
    """The records of one share-partition. `delivery_complete_count` counts those from the start on that are done."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.next_offset = start_offset
        """The first offset that was never acquired."""
        self.batches: list[InFlightBatch] = []
        self.delivery_complete_count = 0
        self._firsts: list[int] = []
        # First offsets of runs that were available when they were added.
        self._available: list[int] = []
        # (until when, first, last) of records that were acquired.
        self._locks: list[tuple[float, int, int]] = []
        self._available_max = self._locks_max = _HEAP_ENTRIES_MIN

    @classmethod
    def load(cls, start_offset: int, states: Sequence[StateRange]) -> InFlight:
        """As it was stored. Offsets between two states were never acquired, or only by a leader that ended.

        Raises CorruptRecord for states that no leader can have written.
        """
        loaded = cls(start_offset)
        for state in sorted(states):
            if state.first_offset < loaded.next_offset or state.last_offset < state.first_offset:
                raise CorruptRecord(
                    f"The stored states of a share-partition from {start_offset} on have {state.first_offset} to "
                    f"{state.last_offset} behind {loaded.next_offset - 1}."
                )
            if state.first_offset > loaded.next_offset:
                gap = RecordRun(loaded.next_offset, state.first_offset - 1, RecordState.AVAILABLE, 0)
                loaded.append(InFlightBatch([gap], is_gap=True))
            if state.delivery_state not in _STORED:
                raise CorruptRecord(f"A share-partition has the stored state {state.delivery_state}.")
            run = RecordRun(state.first_offset, state.last_offset, state.delivery_state, state.delivery_count)
            if run.state in TERMINAL:
                loaded.delivery_complete_count += len(run)
            loaded.append(InFlightBatch([run]))
        loaded.move_start()
        return loaded

    # --- questions ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Offsets in flight, also those of records that are done while one before them is not."""
        return self.next_offset - self.start_offset if self.batches else 0

    @property
    def run_count(self) -> int:
        return sum(len(batch.runs) for batch in self.batches)

    def runs(self) -> Iterator[RecordRun]:
        for batch in self.batches:
            yield from batch.runs

    def next_fetch_offset(self) -> int:
        """The first offset that a member can acquire now."""
        heap = self._available
        while heap:
            offset = heap[0]
            run = self.find(offset)
            if run is not None and run.is_available:
                return offset
            heappop(heap)
        return self.next_offset

    def can_acquire(self, count_max: int) -> bool:
        """Whether a member may acquire a record, if the log has it, while at most `count_max` may be in flight."""
        return self.count < count_max or self.next_fetch_offset() != self.next_offset

    def floor(self, offset: int) -> int:
        """The index of the last batch that begins at `offset` or before it, -1 for none."""
        return bisect_right(self._firsts, offset) - 1

    def first_reaching(self, offset: int) -> int:
        """The index of the first batch with offsets from `offset` on."""
        index = self.floor(offset)
        return index if index >= 0 and self.batches[index].last >= offset else index + 1

    def find(self, offset: int) -> RecordRun | None:
        """The run that has `offset`."""
        index = self.floor(offset)
        if index < 0:
            return None
        batch = self.batches[index]
        run = batch.runs[batch.index_of(offset)]
        return run if run.first <= offset <= run.last else None

    def overlapping(self, first: int, last: int) -> Iterator[tuple[InFlightBatch, RecordRun]]:
        """The runs with offsets from `first` to `last`, while none is split."""
        for index in range(self.first_reaching(first), len(self.batches)):
            batch = self.batches[index]
            if batch.first > last:
                return
            for run in batch.overlapping(first, last):
                yield batch, run

    # --- changes -----------------------------------------------------------------------------------------------------

    def append(self, batch: InFlightBatch) -> None:
        """Add a batch behind all others."""
        assert batch.first >= self.next_offset, "batches follow each other"
        if not self.batches:
            self.start_offset = max(self.start_offset, batch.first)
        self.batches.append(batch)
        self._firsts.append(batch.first)
        self.next_offset = batch.last + 1
        for run in batch.runs:
            if run.is_available:
                self.note_available(run.first)

    def replace(self, index: int, batches: Sequence[InFlightBatch]) -> None:
        """Put `batches` in the place of one, whose offsets they have."""
        self.batches[index : index + 1] = batches
        self._firsts[index : index + 1] = [batch.first for batch in batches]
        for batch in batches:
            for run in batch.runs:
                if run.is_available:
                    self.note_available(run.first)

    def note_available(self, offset: int) -> None:
        """A run that begins at `offset` is available now."""
        heap = self._available
        heappush(heap, offset)
        if len(heap) > self._available_max:
            heap[:] = [one.first for one in self.runs() if one.is_available]
            heapify(heap)
            self._available_max = 2 * len(heap) + _HEAP_ENTRIES_MIN

    def note_locked(self, run: RecordRun) -> None:
        """`run` was acquired, or its lock renewed."""
        heap = self._locks
        heappush(heap, (run.locked_until, run.first, run.last))
        if len(heap) > self._locks_max:
            heap[:] = [
                (one.locked_until, one.first, one.last)
                for one in self.runs()
                if one.state == RecordState.ACQUIRED
            ]
            heapify(heap)
            self._locks_max = 2 * len(heap) + _HEAP_ENTRIES_MIN

    def next_deadline(self) -> float:
        """When the first lock ends, `inf` for never."""
        heap = self._locks
        while heap:
            until, first, last = heap[0]
            if any(
                run.state == RecordState.ACQUIRED and run.locked_until == until
                for _, run in self.overlapping(first, last)
            ):
                return until
            heappop(heap)
        return math.inf

    def take_expired(self, now: float) -> list[RecordRun]:
        """The runs whose locks have ended, the earliest lock first. They stay as they are."""
        heap, expired = self._locks, []
        while heap and heap[0][0] <= now:
            _, first, last = heappop(heap)
            expired += [
                run for _, run in self.overlapping(first, last) if run.is_held and run.locked_until <= now
            ]
        return list(dict.fromkeys(expired))

    def cut(self, batch: InFlightBatch, run: RecordRun, first: int, last: int) -> RecordRun:
        """The part of `run` from `first` to `last`, as a run of its own."""
        end = run.last
        part = batch.cut(run, first, last)
        if part.last < end and part.is_available:
            self.note_available(part.last + 1)
        return part

    def split(self, first: int, last: int, offsets: Sequence[int]) -> None:
        """Let acquired runs from `first` to `last` end before each of `offsets`."""
        for index in range(self.first_reaching(first), self.floor(last) + 1):
            batch = self.batches[index]
            if batch.last > batch.first:
                batch.split(offsets)

    def join(self, run: RecordRun) -> None:
        """Join `run` with the neighbours of its batch that are alike."""
        self.batches[self.floor(run.first)].join(run)

    def archive(self, first: int, last: int, *, state: int) -> int:
        """Archive the records from `first` to `last` that are in `state`, unless a change is under way; how many."""
        archived = 0
        for batch, run in list(self.overlapping(first, last)):
            if run.state == state and run.before is None:
                part = self.cut(batch, run, first, last)
                self.finish(part, RecordState.ARCHIVED)
                archived += len(part)
        if archived:
            self.move_start()
        return archived

    def finish(self, run: RecordRun, state: int) -> None:
        """The records of `run` are done, in a terminal state."""
        run.state = state
        run.member, run.locked_until = NO_MEMBER, NO_LOCK
        self.delivery_complete_count += len(run)

    def move_start(self) -> None:
        """Forget the records at the start that are done."""
        done = 0
        for batch in self.batches:
            kept = next((index for index, run in enumerate(batch.runs) if not run.is_done), len(batch.runs))
            self.delivery_complete_count -= sum(len(run) for run in batch.runs[:kept])
            if kept < len(batch.runs):
                del batch.runs[:kept]
                break
            done += 1
        self._drop(done)

    def advance_log_start(self, offset: int) -> None:
        """Forget all below `offset`, where the log now starts."""
        if offset <= self.start_offset:
            return
        done = 0
        for batch in self.batches:
            if batch.first >= offset:
                break
            kept = next(
                (index for index, run in enumerate(batch.runs) if run.last >= offset), len(batch.runs)
            )
            self._forget(batch.runs[:kept])
            if kept < len(batch.runs):
                del batch.runs[:kept]
                self._trim(batch.runs[0], offset)
                break
            done += 1
        self._drop(done)
        self.start_offset = max(self.start_offset, offset)
        self.next_offset = max(self.next_offset, offset)
        self.move_start()

    def _forget(self, runs: Iterable[RecordRun]) -> None:
        for run in runs:
            if run.state in TERMINAL:
                self.delivery_complete_count -= len(run)
            # A change of it that is under way, or a copy for the dead-letter topic, finds no records any more.
            run.first = run.last + 1

    def _trim(self, run: RecordRun, offset: int) -> None:
        if run.first >= offset:
            return
        if run.state in TERMINAL:
            self.delivery_complete_count -= offset - run.first
        run.first = offset
        if run.is_available:
            self.note_available(run.first)

    def _drop(self, count: int) -> None:
        """Forget the first `count` batches; the start is where the next one begins."""
        del self.batches[:count]
        del self._firsts[:count]
        if not self.batches:
            self.start_offset = self.next_offset
            self.delivery_complete_count = 0
            return
        self._firsts[0] = self.batches[0].first
        self.start_offset = max(self.start_offset, self._firsts[0])
