"""Which of the oldest segments a log may delete: by time, by size, and below the log's start.

Each rule counts segments from the oldest on and stops at the first that has to stay. None sees a segment that holds
offsets above the high watermark. The log deletes them (`Log.delete_old_segments`), and a broker asks for it from time
to time (`broker.replication.housekeeping`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from odradek.storage.config import LogConfig
from odradek.storage.segment import Segment
from odradek.storage.segment_set import SegmentSet


def old_segments(
    segments: SegmentSet,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int | None,
    config: LogConfig,
    now_ms: int,
) -> Sequence[Segment]:
    """The oldest segments wholly below the high watermark that a rule names. Raises OSError."""
    limit = log_end_offset if high_watermark is None else min(high_watermark, log_end_offset)
    candidates: list[Segment] = []
    next_offsets: list[int] = []
    for number, segment in enumerate(segments.all):
        next_offset = segments.upper_offset(number, end_offset=log_end_offset)
        if next_offset > limit or (segment is segments.active and not segment.size_bytes):
            break
        candidates.append(segment)
        next_offsets.append(next_offset)
    # DeleteRecords has moved the log's start, under any cleanup policy.
    count = len(list(takewhile(lambda offset: offset <= log_start_offset, next_offsets)))
    if config.cleanup_delete and config.retention_ms >= 0:
        count = max(count, _count_by_time(candidates, now_ms - config.retention_ms))
    if config.cleanup_delete and config.retention_bytes >= 0:
        count = max(count, _count_by_size(candidates, segments.size_bytes - config.retention_bytes))
    return candidates[:count]


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
