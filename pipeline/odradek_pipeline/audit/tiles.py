"""The second audit, which asks no producer: ranges of runs, rows and dead letters tile the log without hole or overlap.

Each offset of what a table holds is a row or a dead letter, or has a reason to be neither. It is a marker, an aborted
record, one that compaction removed, or one that a run put on record as lost. Below the log's start only rows are left
to look at. What is none of these is unexplained, and named by its offsets:

    hole          no run read these offsets             overlap    two runs read them
    missing       the log has records, the table none   doubled    the table has a row twice
    foreign       a row that no run read                uncommitted    a row of an aborted transaction
    unknown       a row without a record in the log     unexplained    the log itself has nothing, and no reason
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek_pipeline.audit.spans import (
    Span,
    Spans,
    count_offsets,
    find_overlaps,
    intersect_spans,
    join_spans,
    subtract_spans,
)
from odradek_pipeline.runs.ranges import OffsetRange, PartitionKey

HOLE: Final = "hole"
OVERLAP: Final = "overlap"
MISSING: Final = "missing"
DOUBLED: Final = "doubled"
FOREIGN: Final = "foreign"
UNCOMMITTED: Final = "uncommitted"
UNKNOWN: Final = "unknown"
UNEXPLAINED: Final = "unexplained"


@dataclass(frozen=True, slots=True)
class RangesRead:
    """The offsets of one partition that a table's runs record. `ranges` are those of loads and streams, in any order.

    `is_whole` is false where the history of runs begins later than the table, since its older records were cleaned.
    """

    key: PartitionKey
    held: Span
    ranges: Spans
    lost: Spans = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class RowsHeld:
    rows: Spans
    doubled: Spans = ()
    dead: Spans = ()


@dataclass(frozen=True, slots=True)
class LogPicture:
    """The log of one partition from `start` on. `readable` are its committed records.

    The others explain offsets without one; they are only asked for where such offsets are.
    """

    start: int
    readable: Spans
    control: Spans = ()
    aborted: Spans = ()
    compacted: Spans = ()
    is_compacted: bool = False


class TileFault(NamedTuple):
    key: PartitionKey
    what: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.key} {self.start}..{self.end} {self.what}"


@dataclass(frozen=True, slots=True)
class Tiling:
    """One partition: numbers of offsets by what they are, and the faults."""

    key: PartitionKey
    held: Span
    rows: int
    dead: int
    control: int
    aborted: int
    compacted: int
    passed_over: int
    unchecked: int
    """Offsets below the log's start without a row: nothing is left that could say more."""
    faults: Sequence[TileFault] = field(default_factory=tuple)


def find_gaps(read: RangesRead, held: RowsHeld, start: int, readable: Spans) -> list[Span]:
    """The offsets that only the log's own batches can explain."""
    checkable = [(max(read.held[0], start), read.held[1])]
    return subtract_spans(checkable, [*held.dead, *readable])


def lay_tiles(read: RangesRead, held: RowsHeld, log: LogPicture) -> Tiling:
    start, end = read.held
    rows, dead = join_spans(held.rows), join_spans(held.dead)
    checkable = [(max(start, log.start), end)]
    below = [(start, min(log.start, end))]
    readable = intersect_spans(log.readable, checkable)
    emptied = subtract_spans(checkable, log.readable) if log.is_compacted else log.compacted
    compacted = subtract_spans(emptied, [*log.control, *log.aborted])
    known = [*log.control, *log.aborted, *compacted, *read.lost]
    faults: dict[str, list[Span]] = {
        HOLE: subtract_spans([(start, end)], [*read.ranges, *read.lost, *_before_history(read)]),
        OVERLAP: find_overlaps(read.ranges),
        MISSING: subtract_spans(readable, [*rows, *dead, *read.lost]),
        DOUBLED: join_spans(held.doubled),
        FOREIGN: subtract_spans(rows, [(start, end)]),
        UNCOMMITTED: intersect_spans(rows, log.aborted),
        UNKNOWN: subtract_spans(
            intersect_spans(rows, checkable),
            [*readable, *log.aborted, *([(0, end)] if log.is_compacted else [])],
        ),
        UNEXPLAINED: subtract_spans(checkable, [*rows, *dead, *readable, *known]),
    }
    faults[UNEXPLAINED] = subtract_spans(faults[UNEXPLAINED], faults[HOLE])
    faults[MISSING] = subtract_spans(faults[MISSING], faults[HOLE])
    taken = [*rows, *dead]
    return Tiling(
        key=read.key,
        held=read.held,
        rows=count_offsets(intersect_spans(rows, [(start, end)])),
        dead=count_offsets(subtract_spans(intersect_spans(dead, [(start, end)]), rows)),
        control=count_offsets(intersect_spans(log.control, checkable)),
        aborted=count_offsets(subtract_spans(intersect_spans(log.aborted, checkable), taken)),
        compacted=count_offsets(subtract_spans(intersect_spans(compacted, checkable), [*taken, *readable])),
        passed_over=count_offsets(subtract_spans(intersect_spans(read.lost, [(start, end)]), taken)),
        unchecked=count_offsets(subtract_spans(below, [*taken, *read.lost])),
        faults=tuple(TileFault(read.key, what, *span) for what, spans in faults.items() for span in spans),
    )


def find_foreign_rows(rows: Mapping[PartitionKey, Spans], known: Collection[PartitionKey]) -> list[TileFault]:
    """The rows of partitions that no run has read."""
    strange = {key: join_spans(spans) for key, spans in rows.items() if key not in known}
    return [TileFault(key, FOREIGN, *span) for key, spans in strange.items() for span in spans]


def ranges_read(
    key: PartitionKey,
    held: Span,
    ranges: Sequence[OffsetRange],
    lost: Sequence[OffsetRange],
    *,
    is_whole: bool = True,
) -> RangesRead:
    """The ranges of one partition among those of all runs."""
    return RangesRead(
        key,
        held,
        [(one.start, one.end) for one in ranges if one.key == key],
        [(one.start, one.end) for one in lost if one.key == key],
        is_whole,
    )


def _before_history(read: RangesRead) -> list[Span]:
    """Return the offsets of runs whose records were cleaned: from the table's beginning to the first known range."""
    if read.is_whole:
        return []
    first = min((start for start, _ in read.ranges), default=read.held[1])
    return [(read.held[0], max(first, read.held[0]))]
