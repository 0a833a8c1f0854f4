"""Which of the oldest segments a log may delete: strategies that are asked one after the other.

A strategy counts segments from the oldest on and stops at the first that has to stay. It never sees one that holds
offsets above the high watermark. The log deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from odradek.foundation.named_tuple import NamedTuple
from odradek.log.config import LogConfig
from odradek.log.segment import Segment
from odradek.log.segment_set import SegmentSet


class RetentionView(NamedTuple):
    """What a strategy may look at."""

    segments: Sequence[Segment]
    """All segments whose last offset is below the high watermark, oldest first."""
    next_offsets: Sequence[int]
    """For each the first offset that is no longer its own."""
    log_start_offset: int
    size_bytes: int
    """Of the whole log, the segments that are not in the list among it."""
    config: LogConfig
    now_ms: int


def by_time(view: RetentionView) -> int:
    """Segments whose newest record is older than retention.ms."""
    retention_ms = view.config.retention_ms
    if retention_ms < 0 or not view.config.cleanup_delete:
        return 0
    oldest_ms = view.now_ms - retention_ms
    return len(list(takewhile(lambda one: one.retention_timestamp_ms() < oldest_ms, view.segments)))


def by_size(view: RetentionView) -> int:
    """Segments without which the log still has retention.bytes."""
    retention_bytes = view.config.retention_bytes
    if retention_bytes < 0 or not view.config.cleanup_delete:
        return 0
    surplus = view.size_bytes - retention_bytes
    count = 0
    for segment in view.segments:
        surplus -= segment.size_bytes
        if surplus < 0:
            break
        count += 1
    return count


def by_log_start(view: RetentionView) -> int:
    """Segments that lie wholly below the log's start, which DeleteRecords has moved; under any cleanup policy."""
    return len(list(takewhile(lambda offset: offset <= view.log_start_offset, view.next_offsets)))


def old_segments(
    segments: SegmentSet,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int | None,
    config: LogConfig,
    now_ms: int,
) -> Sequence[Segment]:
    """The oldest segments wholly below the high watermark that a strategy names. Raises OSError."""
    limit = log_end_offset if high_watermark is None else min(high_watermark, log_end_offset)
    candidates: list[Segment] = []
    next_offsets: list[int] = []
    for number, segment in enumerate(segments.all):
        next_offset = segments.upper_offset(number, end_offset=log_end_offset)
        if next_offset > limit or (segment is segments.active and not segment.size_bytes):
            break
        candidates.append(segment)
        next_offsets.append(next_offset)
    view = RetentionView(
        segments=candidates,
        next_offsets=next_offsets,
        log_start_offset=log_start_offset,
        size_bytes=segments.size_bytes,
        config=config,
        now_ms=now_ms,
    )
    # How many of the oldest each of them names.
    return candidates[: max(by_time(view), by_size(view), by_log_start(view))]
