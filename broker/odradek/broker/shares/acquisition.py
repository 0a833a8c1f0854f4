"""A member acquires records of a share-partition: those that are available again first, and then new ones.

Records are acquired in whole batches, and `records_max` is a soft limit: a batch is given to one member. With a strict
limit (KIP-1206) a batch is shared where the limit is reached.

A record that was delivered half as often as it may be is suspect. Its batch is acquired alone from then on, and half
as large with each delivery. In its last delivery a record is alone. So one bad record does not archive others with it.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.record_batches import RecordBatches
from odradek.broker.shares.runs import InFlightBatch, RecordRun, RecordState
from odradek.foundation.named_tuple import NamedTuple

# Below this number a limit of deliveries leaves no room to isolate a record.
_SUSPECT_DELIVERIES_MIN: Final = 2


class AcquiredRange(NamedTuple):
    """Offsets that a member has for itself now, and how often they were delivered with this time."""

    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Terms(NamedTuple):
    """What a member asks for, and what its group allows."""

    member: str
    records_max: int
    batch_size: int
    is_strict: bool
    """Whether no more than `records_max` are acquired; else a batch is acquired as a whole."""
    in_flight_max: int
    delivery_count_max: int
    locked_until: float


def acquire(
    in_flight: InFlight, terms: Terms, records: RecordBatches, *, fetch_offset: int
) -> list[AcquiredRange]:
    """Acquire what `records` has, which were read from `fetch_offset`; sorted by offsets."""
    return _Acquisition(in_flight, terms, records, fetch_offset).acquire()


class _Acquisition:
    def __init__(self, in_flight: InFlight, terms: Terms, records: RecordBatches, fetch_offset: int) -> None:
        self._in_flight = in_flight
        self._terms = terms
        self._records = records
        self._fetch_offset = fetch_offset
        self._suspect_count = max(_SUSPECT_DELIVERIES_MIN, -(-terms.delivery_count_max // 2))
        self._acquired: list[AcquiredRange] = []
        self._budget = 0

    def acquire(self) -> list[AcquiredRange]:
        in_flight, terms = self._in_flight, self._terms
        self._budget = min(terms.records_max, terms.in_flight_max - in_flight.count)
        is_full = self._budget <= 0
        if is_full:
            # What is in flight already may still be acquired again.
            self._budget = min(terms.records_max, in_flight.next_offset - self._fetch_offset)
        if self._budget <= 0:
            return []
        base = self._records.first_offset
        if self._fetch_offset < base:
            # Compaction has removed them.
            in_flight.archive(self._fetch_offset, base - 1, state=RecordState.AVAILABLE)
        if self._acquire_again(base) and not is_full:
            first = max(in_flight.next_offset, base)
            if self._budget > 0 and self._records.reach(first) >= first:
                made, got = self._new_batches(first, self._last_of(first, None), self._budget)
                for batch in made:
                    in_flight.append(batch)
                self._note(got)
        return self._leave_out_aborted()

    def _acquire_again(self, base: int) -> bool:
        """Acquire what is available of what is in flight; whether more may follow."""
        in_flight, records = self._in_flight, self._records
        offset = max(base, in_flight.start_offset)
        while self._budget > 0:
            index = in_flight.first_reaching(offset)
            if index >= len(in_flight.batches):
                return True
            batch = in_flight.batches[index]
            first, last = max(offset, batch.first), batch.last
            offset = last + 1
            if len(batch.runs) == 1 and not batch.runs[0].is_available:
                continue
            last = min(last, records.reach(last))
            if last < first:
                return False
            if batch.is_gap:
                offset = self._acquire_gap(index, batch, first, last)
                continue
            if not self._acquire_of_batch(batch, first, last):
                return False
        return False

    def _acquire_gap(self, index: int, gap: InFlightBatch, first: int, last: int) -> int:
        """Acquire offsets of a gap between stored states as new ones; where to continue."""
        run = next((run for run in gap.overlapping(first, last) if run.is_available), None)
        if run is None:
            return last + 1
        first = max(first, run.first)
        made, got = self._new_batches(first, self._last_of(first, min(last, run.last)), self._budget)
        end = made[-1].last
        position = gap.runs.index(gap.cut(run, first, end))
        before, after = gap.runs[:position], gap.runs[position + 1 :]
        self._in_flight.replace(
            index,
            [
                *([InFlightBatch(before, is_gap=True)] if before else ()),
                *made,
                *([InFlightBatch(after, is_gap=True)] if after else ()),
            ],
        )
        self._note(got)
        return end + 1

    def _acquire_of_batch(self, batch: InFlightBatch, first: int, last: int) -> bool:
        """Acquire what is available of one batch; whether more may follow."""
        available = [run for run in batch.overlapping(first, last) if run.is_available]
        if not available:
            return True
        is_suspect = max(run.delivery_count for run in available) >= self._suspect_count
        if is_suspect and self._acquired:
            return False
        got = self._acquire_runs(batch, available, first, last)
        self._note(got)
        return not (is_suspect and got)

    def _acquire_runs(
        self, batch: InFlightBatch, available: list[RecordRun], first: int, last: int
    ) -> list[AcquiredRange]:
        terms = self._terms
        deliveries_max = terms.delivery_count_max
        acquired: list[AcquiredRange] = []
        count, isolated_max = 0, -1
        for run in available:
            start, take = max(run.first, first), min(run.last, last) - max(run.first, first) + 1
            is_last_time = (
                deliveries_max > _SUSPECT_DELIVERIES_MIN and run.delivery_count == deliveries_max - 1
            )
            if is_last_time and count:
                break
            if run.delivery_count >= self._suspect_count and isolated_max < 0:
                isolated_max = max(1, batch.size >> (run.delivery_count - self._suspect_count + 1))
            if is_last_time:
                take = 1
            if terms.is_strict:
                take = min(take, self._budget - count)
            if isolated_max > count:
                take = min(take, isolated_max - count)
            part = self._in_flight.cut(batch, run, start, start + take - 1)
            self._lock(part)
            _add(acquired, AcquiredRange(start, start + take - 1, part.delivery_count))
            batch.join(part)
            count += take
            if is_last_time or count == isolated_max or (terms.is_strict and count >= self._budget):
                break
        return acquired

    def _lock(self, run: RecordRun) -> None:
        terms = self._terms
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member, run.locked_until = terms.member, terms.locked_until
        self._in_flight.note_locked(run)

    def _last_of(self, first: int, last_max: int | None) -> int:
        """The last of the new offsets to acquire from `first` on: where the budget is used up, or its batch ends."""
        last = self._records.end_of(first + self._budget - 1)
        return last if last_max is None else min(last, last_max)

    def _new_batches(
        self, first: int, last: int, budget: int
    ) -> tuple[list[InFlightBatch], list[AcquiredRange]]:
        """Batches of offsets that no member had, and what of them is acquired."""
        terms = self._terms
        if terms.is_strict:
            end = min(last, first + budget - 1)
            runs = [self._new_run(first, end)]
            if end < last:
                runs.append(RecordRun(end + 1, last, RecordState.AVAILABLE, 0))
            return [InFlightBatch(runs)], [AcquiredRange(first, end, 1)]
        starts = [first]
        if last - first + 1 > terms.batch_size:
            for start in self._records.starts(first, last):
                if start - starts[-1] >= terms.batch_size:
                    starts.append(start)
        ends = [*(start - 1 for start in starts[1:]), last]
        batches = [
            InFlightBatch([self._new_run(start, end)]) for start, end in zip(starts, ends, strict=True)
        ]
        return batches, [AcquiredRange(start, end, 1) for start, end in zip(starts, ends, strict=True)]

    def _new_run(self, first: int, last: int) -> RecordRun:
        run = RecordRun(first, last, RecordState.ACQUIRED, 1, self._terms.member, self._terms.locked_until)
        self._in_flight.note_locked(run)
        return run

    def _note(self, acquired: list[AcquiredRange]) -> None:
        self._acquired += acquired
        self._budget -= sum(one.size for one in acquired)

    def _leave_out_aborted(self) -> list[AcquiredRange]:
        """Archive the acquired records whose transactions were aborted; the others."""
        aborted = self._records.aborted_ranges
        if not aborted:
            return self._acquired
        kept: list[AcquiredRange] = []
        position = 0
        for one in self._acquired:
            first = one.first
            while position < len(aborted) and aborted[position][1] < first:
                position += 1
            for low, high in islice(aborted, position, None):
                if low > one.last:
                    break
                if first < low:
                    kept.append(one._replace(first=first, last=low - 1))
                self._in_flight.archive(max(first, low), min(one.last, high), state=RecordState.ACQUIRED)
                first = high + 1
            if first <= one.last:
                kept.append(one._replace(first=first))
        return kept


def _add(acquired: list[AcquiredRange], one: AcquiredRange) -> None:
    """Add `one`, joined with the last where they are alike."""
    if acquired:
        last = acquired[-1]
        if last.last + 1 == one.first and last.delivery_count == one.delivery_count:
            acquired[-1] = last._replace(last=one.last)
            return
    acquired.append(one)
