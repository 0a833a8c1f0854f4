"""Where the records of a source are at the target: an index of what was passed, and the translation of offsets.

A run is a stretch of records that were passed one after the other:

    source   [source_first_offset, source_end_offset)     offsets without a record are gaps
    target   [target_first_offset, target_end_offset)     offsets without a record are markers of transactions
    records  record_count, in the same order on both sides

A batch that is passed begins a run, or extends the last one if neither side has a gap. For an offset within a run at
least `record_count - (source_end_offset - offset)` of its records come before it. So that many offsets above
`target_first_offset` is never ahead of the group. Without gaps it is exact. Else a group reads again as many records as
the run has gaps, at most.

Memory is bounded. A full index joins neighbouring runs of its older half. The gaps between them become gaps of the
joined run. So old offsets are translated with a little less precision, and never to a later offset.

What it leaves out: reading and writing. `offset_syncs` stores runs, and `rebuilding` reads them after a start.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import MIRROR_OFFSET_RUNS_MAX, MIRROR_OFFSET_RUNS_PER_PARTITION_MAX
from odradek.foundation.named_tuple import NamedTuple

_RUNS_PER_PARTITION_MIN: Final = 64


class OffsetRun(NamedTuple):
    """Records that were passed one after the other."""

    source_first_offset: int
    source_end_offset: int
    target_first_offset: int
    target_end_offset: int
    record_count: int

    @property
    def is_possible(self) -> bool:
        """Whether the numbers can be those of a run at all."""
        spans = (
            self.source_end_offset - self.source_first_offset,
            self.target_end_offset - self.target_first_offset,
        )
        return min(self.source_first_offset, self.target_first_offset, self.record_count) >= 0 and (
            min(spans) >= self.record_count
        )

    @property
    def gaps(self) -> int:
        """The offsets of either side without a record: what a translation within the run may be behind."""
        source_span = self.source_end_offset - self.source_first_offset
        target_span = self.target_end_offset - self.target_first_offset
        return source_span + target_span - 2 * self.record_count

    def translate_offset(self, source_offset: int) -> int:
        """The offset at the target for an offset that is not before this run."""
        if source_offset >= self.source_end_offset:
            return self.target_end_offset
        return self.target_first_offset + max(0, self.record_count - (self.source_end_offset - source_offset))


def join_runs(earlier: OffsetRun, later: OffsetRun) -> OffsetRun:
    """One run in place of two neighbours."""
    return OffsetRun(
        earlier.source_first_offset,
        later.source_end_offset,
        earlier.target_first_offset,
        later.target_end_offset,
        earlier.record_count + later.record_count,
    )


def point(source_offset: int, target_offset: int) -> OffsetRun:
    """A run without records: from this source offset on, records are not before this target offset."""
    return OffsetRun(source_offset, source_offset, target_offset, target_offset, 0)


def beginning(source_offset: int, target_offset: int) -> OffsetRun:
    """The run that a partition has before its first record is passed, when it is mirrored from its first record on."""
    return OffsetRun(0, source_offset, target_offset, target_offset, 0)


class PartitionIndex:
    """The runs of one partition, in order, in at most `runs_max` rows of numbers."""

    __slots__ = ("_columns", "runs_max")

    def __init__(self, runs_max: int = MIRROR_OFFSET_RUNS_PER_PARTITION_MAX) -> None:
        self.runs_max = runs_max
        self._columns = _columns(())

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[OffsetRun]:
        return map(OffsetRun._make, zip(*self._columns, strict=True))

    @property
    def last(self) -> OffsetRun | None:
        """The newest run; None while nothing is known."""
        return self._run(-1) if len(self) else None

    def add(self, run: OffsetRun) -> None:
        """Append what was passed now. A run before the last one's end on either side makes all earlier ones void."""
        assert run.is_possible, run
        last = self.last
        if last is not None and (
            run.source_first_offset < last.source_end_offset
            or run.target_first_offset < last.target_end_offset
        ):
            # The mirror was sent back, or a topic was deleted and made again.
            self._columns = _columns(())
            last = None
        if last is not None and join_runs(last, run).gaps == last.gaps == run.gaps == 0:
            self._columns[1][-1] = run.source_end_offset
            self._columns[3][-1] = run.target_end_offset
            self._columns[4][-1] += run.record_count
            return
        for column, value in zip(self._columns, run, strict=True):
            column.append(value)
        if len(self) > self.runs_max:
            self.thin()

    def prepend(self, runs: Iterable[OffsetRun]) -> None:
        """Put what was passed before the first run in front of it. Runs that reach beyond that one are left out."""
        first = self._run(0) if len(self) else None
        known: list[OffsetRun] = []
        for run in runs:
            assert run.is_possible, run
            is_behind = first is None or (
                run.source_end_offset <= first.source_first_offset
                and run.target_end_offset <= first.target_first_offset
            )
            follows = not known or (
                run.source_first_offset >= known[-1].source_end_offset
                and run.target_first_offset >= known[-1].target_end_offset
            )
            if is_behind and follows:
                known.append(run)
        self._columns = _columns([*known, *self])
        self.thin()

    def thin(self) -> None:
        """Join neighbours in the older half, and again until the bound holds."""
        while len(self) > self.runs_max:
            runs = list(self)
            half = (len(runs) // 2) & ~1 or 2
            older = [join_runs(runs[at], runs[at + 1]) for at in range(0, half, 2)]
            self._columns = _columns([*older, *runs[half:]])

    def translate_offset(self, source_offset: int) -> int | None:
        """Where a group at this offset can continue at the target; None for an offset before all that is known.

        No record from `source_offset` on is before the result.
        """
        at = bisect_right(self._columns[0], source_offset) - 1
        return None if at < 0 else self._run(at).translate_offset(source_offset)

    def _run(self, at: int) -> OffsetRun:
        return OffsetRun(*[column[at] for column in self._columns])


class SourceOffsetIndex:
    """The indexes of all partitions of a source that this worker mirrors. Together they have a bound too."""

    def __init__(self, *, runs_max: int = MIRROR_OFFSET_RUNS_MAX) -> None:
        self._runs_max = runs_max
        self._runs_each = MIRROR_OFFSET_RUNS_PER_PARTITION_MAX
        self._partitions: dict[TopicPartition, PartitionIndex] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._partitions

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._partitions)

    def begin(self, partition: TopicPartition, runs: Iterable[OffsetRun] = ()) -> None:
        """Start to index a partition of the source with what is known of it, oldest first."""
        index = self._partitions[partition] = PartitionIndex(self._runs_each)
        self._share()
        for run in runs:
            index.add(run)

    def prepend(self, partition: TopicPartition, runs: Iterable[OffsetRun]) -> None:
        """Add what was passed before the partition began, oldest first."""
        index = self._partitions.get(partition)
        if index is not None:
            index.prepend(runs)

    def end(self, partition: TopicPartition) -> None:
        """Forget a partition that another worker mirrors now."""
        self._partitions.pop(partition, None)
        self._share()

    def add(self, partition: TopicPartition, run: OffsetRun) -> None:
        """Note what was passed. A partition that did not begin is not indexed."""
        index = self._partitions.get(partition)
        if index is not None:
            index.add(run)

    def translate_offset(self, partition: TopicPartition, source_offset: int) -> int | None:
        """As `PartitionIndex.translate_offset`; None for a partition of another worker too."""
        index = self._partitions.get(partition)
        return None if index is None else index.translate_offset(source_offset)

    def last(self, partition: TopicPartition) -> OffsetRun | None:
        """The newest run of a partition; None if there is none."""
        index = self._partitions.get(partition)
        return None if index is None else index.last

    def _share(self) -> None:
        """Share the bound out, in powers of two: so it changes a few times while thousands of partitions begin."""
        share = self._runs_max // max(1, len(self._partitions))
        runs_each = max(
            _RUNS_PER_PARTITION_MIN, min(MIRROR_OFFSET_RUNS_PER_PARTITION_MAX, _power_below(share))
        )
        if runs_each == self._runs_each:
            return
        self._runs_each = runs_each
        for index in self._partitions.values():
            index.runs_max = runs_each
            index.thin()


def _power_below(number: int) -> int:
    return 1 << max(0, number.bit_length() - 1)


def _columns(runs: Iterable[OffsetRun]) -> list[array[int]]:
    rows = list(runs)
    return [array("q", [row[at] for row in rows]) for at in range(len(OffsetRun._fields))]
