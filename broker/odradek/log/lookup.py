"""Which record has a time: the questions of ListOffsets that need more than the log's ends.

A segment whose newest timestamp is too old is skipped. The time index gives a position to start from, and batch headers
lead to the batch. Only that batch is opened to find the record.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.foundation.named_tuple import NamedTuple
from odradek.log.headers import headers
from odradek.log.segment import Segment
from odradek.records.batch import BatchHeader, BatchView
from odradek.records.record import records


class TimestampOffset(NamedTuple):
    """A record's offset and time, and the epoch of the leader that wrote it, -1 in formats without one."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, *, offset_min: int, offset_limit: int
) -> TimestampOffset | None:
    """The first record at or above `offset_min` that is not older; None when there is none below `offset_limit`."""
    for segment in segments:
        if segment.max_timestamp()[0] < timestamp_ms:
            continue
        start = max(segment.offset_before(timestamp_ms), offset_min)
        start_position = segment.position_of(start)
        if start_position < 0:
            continue
        for position, header in headers(segment.file, start_position, segment.size_bytes):
            if header.base_offset >= offset_limit:
                return None
            if header.max_timestamp_ms >= timestamp_ms:
                found = _first_in_batch(segment, position, header, timestamp_ms, offset_min)
                if found is not None:
                    return found if found.offset < offset_limit else None
    return None


def newest(segments: Sequence[Segment], *, offset_limit: int) -> TimestampOffset | None:
    """The first record of those with the newest timestamp; None in a log without timestamps.

    As in Kafka it may lie below the log's start, where DeleteRecords has deleted a part of a segment. A log with
    one record left has a newest time then, although a reader cannot have that very record.
    """
    candidates = [segment for segment in segments if segment.size_bytes]
    if not candidates:
        return None
    segment = max(candidates, key=lambda candidate: candidate.max_timestamp()[0])
    timestamp_ms, offset = segment.max_timestamp()
    if timestamp_ms < 0:
        return None
    start_position = segment.position_of(offset)
    if start_position >= 0:
        for position, header in headers(segment.file, start_position, segment.size_bytes):
            if header.max_timestamp_ms == timestamp_ms:
                found = _first_in_batch(segment, position, header, timestamp_ms)
                if found is not None and found.offset < offset_limit:
                    return found
                break
            if header.base_offset > offset:
                break
    # The index names a batch that is not yet committed: look through what is left.
    return _newest_by_scan(segments, offset_limit=offset_limit)


def _newest_by_scan(segments: Sequence[Segment], *, offset_limit: int) -> TimestampOffset | None:
    best: tuple[Segment, int, BatchHeader] | None = None
    for segment in segments:
        for position, header in headers(segment.file, 0, segment.size_bytes):
            inside = header.base_offset < offset_limit
            if inside and (best is None or header.max_timestamp_ms > best[2].max_timestamp_ms):
                best = segment, position, header
    if best is None or best[2].max_timestamp_ms < 0:
        return None
    segment, position, header = best
    return _first_in_batch(segment, position, header, header.max_timestamp_ms)


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, offset_min: int = 0
) -> TimestampOffset | None:
    data = segment.file.pread(position, header.size_bytes)
    if header.magic < 2:
        # Only a directory from an old Kafka needs it.
        from odradek.records.legacy import messages

        inside = messages(data)
    else:
        inside = records(BatchView(memoryview(data)))
    for record in inside:
        if record.timestamp_ms >= timestamp_ms and record.offset >= offset_min:
            return TimestampOffset(record.offset, record.timestamp_ms, header.leader_epoch)
    return None
