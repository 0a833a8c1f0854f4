"""Which logs need compaction, which of them is next, and how much of each may be compacted now.

    first dirty offset        all below holds one record of each key: the log's checkpoint, or its start
    first uncleanable offset  the base of the first segment that holds something above the last stable offset, that is
                              younger than min.compaction.lag.ms, or that is the active one
    ratio                     bytes between the two, as a part of all bytes below the second

The rules are Apache Kafka's (`LogCleanerManager`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from odradek.foundation.limits import INTERNAL_ROLL_BYTES_MIN, INTERNAL_ROLL_GROWTH
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.compaction.task import CleaningTask, SourceSegment
from odradek.storage.config import LONG_MAX
from odradek.storage.log import Log
from odradek.storage.segment import Segment

OwnerT = TypeVar("OwnerT")


class Cleanable(NamedTuple):
    """The part of a log that may be compacted."""

    log: Log
    segments: tuple[Segment, ...]
    """Those that may be rewritten, from the log's first on."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    """Bytes of the segments from the first dirty offset up to the first uncleanable one."""
    is_overdue: bool
    """Whether a record waits for longer than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        """The dirty part of what may be compacted."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough."""
        return self.dirty_bytes > 0 and (
            self.is_overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio
        )


def first_dirty_offset(log: Log) -> int:
    """Where the part begins that may hold several records of a key."""
    cleaned = log.offsets.cleaned_offset
    start = log.log_start_offset
    return cleaned if start <= cleaned <= log.log_end_offset else start


def cleanable(log: Log, *, last_stable_offset: int, now_ms: int) -> Cleanable:
    """The part of a log that may be compacted at the wall clock's `now_ms`. Raises OSError, CorruptRecord."""
    config = log.config
    dirty = first_dirty_offset(log)
    segments: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    oldest_ms = -1
    closed = log.segments.all[:-1]
    for number, segment in enumerate(closed):
        next_base = log.segments.all[number + 1].base_offset
        if next_base > last_stable_offset:
            break
        if next_base > dirty:
            if config.min_compaction_lag_ms > 0 and segment.size_bytes:
                newest_ms = segment.retention_timestamp_ms()
                if newest_ms > now_ms - config.min_compaction_lag_ms:
                    break
            dirty_bytes += segment.size_bytes
            if oldest_ms < 0 and segment.size_bytes:
                oldest_ms = segment.roll_timestamp_ms()
        else:
            clean_bytes += segment.size_bytes
        segments.append(segment)
    uncleanable = log.segments.all[len(segments)].base_offset
    return Cleanable(
        log=log,
        segments=tuple(segments),
        first_dirty_offset=dirty,
        first_uncleanable_offset=max(uncleanable, dirty),
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        is_overdue=oldest_ms >= 0 and now_ms - oldest_ms > config.max_compaction_lag_ms,
    )


def choose_dirtiest(
    found: Iterable[tuple[OwnerT, Cleanable]], count_max: int
) -> list[tuple[OwnerT, Cleanable]]:
    """The logs that are compacted next, each with its owner: those that are due, the dirtiest first."""
    due = [pair for pair in found if pair[1].is_due]
    due.sort(key=lambda pair: -pair[1].ratio)
    return due[:count_max]


def is_roll_overdue(log: Log, *, now_ms: int) -> bool:
    """Whether the active segment has to be closed, since its first record waits for max.compaction.lag.ms.

    Raises OSError.
    """
    config = log.config
    active = log.segments.active
    if config.max_compaction_lag_ms == LONG_MAX or not active.size_bytes:
        return False
    first_ms = active.roll_timestamp_ms()
    since_ms = first_ms if first_ms >= 0 else active.created_ms
    return now_ms - since_ms > min(config.segment_ms, config.max_compaction_lag_ms) - active.jitter_ms


def has_outgrown(log: Log) -> bool:
    """Whether the active segment is a megabyte and several times what compaction left of the log.

    A restart reads the whole log of a coordinator. So such a log is closed early for the next round.
    """
    active_bytes = log.segments.active.size_bytes
    if active_bytes < INTERNAL_ROLL_BYTES_MIN:
        return False
    return active_bytes > INTERNAL_ROLL_GROWTH * (log.size_bytes - active_bytes)


def task_for(
    found: Cleanable,
    *,
    removal_bound_offset: int,
    now_ms: int,
    map_bytes: int,
    map_load_factor: float,
    window_bytes: int,
    bytes_per_second: float,
) -> CleaningTask:
    """The round that compacts all that may be."""
    log = found.log
    config = log.config
    after = [*(segment.base_offset for segment in found.segments[1:]), found.first_uncleanable_offset]
    return CleaningTask(
        directory=log.directory,
        name=str(log.topic_partition),
        segments=tuple(
            SourceSegment(
                base_offset=segment.base_offset,
                size_bytes=segment.size_bytes,
                index_bytes=segment.offset_index.size_bytes,
                time_index_bytes=segment.time_index.size_bytes,
                modified_ms=segment.modified_ms,
                next_base_offset=next_base_offset,
            )
            for segment, next_base_offset in zip(found.segments, after, strict=True)
        ),
        transaction_indexes=tuple(
            segment.base_offset for segment in log.segments.all if not segment.transaction_index.is_empty
        ),
        first_dirty_offset=found.first_dirty_offset,
        removal_bound_offset=removal_bound_offset,
        producers={
            entry.producer_id: (entry.producer_epoch, entry.last_offset) for entry in log.producers.entries()
        },
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
        map_load_factor=map_load_factor,
        window_bytes=window_bytes,
        bytes_per_second=bytes_per_second,
    )
