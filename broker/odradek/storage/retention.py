"""Which of the oldest segments a log may delete: by time, by size, and below the log's start.

Each rule counts segments from the oldest on and stops at the first that has to stay. A policy of the operator's may
take the place of time and size (log.retention.policy). None sees a segment that holds offsets above the high watermark.
The log deletes them (`Log.delete_old_segments`), and a broker asks for it from time to time
(`broker.replication.housekeeping`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.config import LogConfig
from odradek.storage.segment import Segment
from odradek.storage.segment_set import SegmentSet


class SegmentView(NamedTuple):
    """A segment as a policy sees it. `newest_ms` is its newest record's time, or the file's when records have none."""

    start_offset: int
    end_offset: int
    size_bytes: int
    newest_ms: int


class LogView(NamedTuple):
    """A log as a policy sees it: `segments` are those that may be deleted, oldest first. `size_bytes` is all of it."""

    topic: str
    partition: int
    segments: tuple[SegmentView, ...]
    size_bytes: int
    retention_ms: int
    retention_bytes: int
    now_ms: int


def old_segments(
    segments: SegmentSet,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int | None,
    config: LogConfig,
    now_ms: int,
    chosen_offset: int | None = None,
) -> Sequence[Segment]:
    """The oldest segments wholly below the high watermark that a rule names. Raises OSError.

    With `chosen_offset` a policy has decided instead of time and size: what ends there or below may go.
    """
    candidates, next_offsets = _find_candidates(segments, log_end_offset, high_watermark)
    # DeleteRecords has moved the log's start, under any cleanup policy.
    count = len(list(takewhile(lambda offset: offset <= log_start_offset, next_offsets)))
    if not config.cleanup_delete:
        return candidates[:count]
    if chosen_offset is not None:
        chosen = max(chosen_offset, log_start_offset)
        return candidates[: len(list(takewhile(lambda offset: offset <= chosen, next_offsets)))]
    if config.retention_ms >= 0:
        count = max(count, _count_by_time(candidates, now_ms - config.retention_ms))
    if config.retention_bytes >= 0:
        count = max(count, _count_by_size(candidates, segments.size_bytes - config.retention_bytes))
    return candidates[:count]


def view_log(
    segments: SegmentSet,
    *,
    topic: str,
    partition: int,
    log_end_offset: int,
    high_watermark: int,
    config: LogConfig,
    now_ms: int,
) -> LogView | None:
    """What a policy decides on; None where nothing may be deleted. Raises OSError."""
    if not config.cleanup_delete:
        return None
    candidates, next_offsets = _find_candidates(segments, log_end_offset, high_watermark)
    if not candidates:
        return None
    return LogView(
        topic=topic,
        partition=partition,
        size_bytes=segments.size_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        now_ms=now_ms,
        segments=tuple(
            SegmentView(one.base_offset, next_offset, one.size_bytes, one.retention_timestamp_ms())
            for one, next_offset in zip(candidates, next_offsets, strict=True)
        ),
    )


def _find_candidates(
    segments: SegmentSet, log_end_offset: int, high_watermark: int | None
) -> tuple[list[Segment], list[int]]:
    """The segments wholly below the high watermark, oldest first, each with the offset behind it."""
    limit = log_end_offset if high_watermark is None else min(high_watermark, log_end_offset)
    candidates: list[Segment] = []
    next_offsets: list[int] = []
    for number, segment in enumerate(segments.all):
        next_offset = segments.upper_offset(number, end_offset=log_end_offset)
        if next_offset > limit or (segment is segments.active and not segment.size_bytes):
            break
        candidates.append(segment)
        next_offsets.append(next_offset)
    return candidates, next_offsets


def _count_by_time(segments: Sequence[Segment], oldest_ms: int) -> int:
    """Those whose newest record is older than retention.ms."""
    return len(list(takewhile(lambda segment: segment.retention_timestamp_ms() < oldest_ms, segments)))


def _count_by_size(segments: Sequence[Segment], surplus_bytes: int) -> int:
    """Those without which the log still has retention.bytes."""
    for count, segment in enumerate(segments):
        surplus_bytes -= segment.size_bytes
        if surplus_bytes < 0:
            return count
    return len(segments)
