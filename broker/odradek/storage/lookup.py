"""Which record has a time: the questions of ListOffsets that need more than the log's ends.

A segment whose newest timestamp is too old is skipped. The time index gives a position to start from, and batch headers
lead to the batch. Only that batch is opened to find the record.

A search is a generator, so that its caller decides where batches are read and decompressed, and when others have their
turn. It yields batches to open, is sent what `OpenedBatch.find` gives, and yields None after many headers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.storage.headers import headers
from odradek.storage.segment import Segment
from odradek.wire.records.batch import BatchHeader, BatchView
from odradek.wire.records.record import records

if TYPE_CHECKING:
    from odradek.storage.files import DiskFile


class TimestampOffset(NamedTuple):
    """A record's offset and time, and the epoch of the leader that wrote it, -1 in formats without one."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class OpenedBatch(NamedTuple):
    """A batch in which a record is searched: the first that is not older, from `offset_min` on."""

    file: DiskFile
    position: int
    header: BatchHeader
    timestamp_ms: int
    offset_min: int

    def find(self) -> TimestampOffset | None:
        """Read and decompress the batch; any thread may. Raises OSError, CorruptRecord."""
        header = self.header
        data = self.file.pread(self.position, header.size_bytes)
        if header.magic < 2:
            # Only a directory from an old Kafka needs it.
            from odradek.wire.records.legacy import messages

            inside = messages(data)
        else:
            inside = records(BatchView(memoryview(data)))
        for record in inside:
            if record.timestamp_ms >= self.timestamp_ms and record.offset >= self.offset_min:
                return TimestampOffset(record.offset, record.timestamp_ms, header.leader_epoch)
        return None


Search = Generator[OpenedBatch | None, TimestampOffset | None, TimestampOffset | None]


def finish_search(search: Search) -> TimestampOffset | None:
    """The outcome of a search that is done at once, here."""
    found: TimestampOffset | None = None
    while True:
        try:
            opened = search.send(found)
        except StopIteration as end:
            result: TimestampOffset | None = end.value
            return result
        try:
            found = None if opened is None else opened.find()
        except Exception as error:
            # The search knows what a failure of the disk means.
            search.throw(error)
            raise


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, *, offset_min: int, offset_limit: int
) -> Search:
    """The first record at or above `offset_min` that is not older; None when there is none below `offset_limit`."""
    for segment in segments:
        if segment.max_timestamp()[0] < timestamp_ms:
            continue
        start = max(segment.offset_before(timestamp_ms), offset_min)
        start_position = segment.position_of(start)
        if start_position < 0:
            continue
        file = segment.file
        for number, (position, header) in enumerate(headers(file, start_position, segment.size_bytes), 1):
            if header.base_offset >= offset_limit:
                return None
            if header.max_timestamp_ms >= timestamp_ms:
                found = yield OpenedBatch(file, position, header, timestamp_ms, offset_min)
                if found is not None:
                    return found if found.offset < offset_limit else None
            if number % REQUEST_ELEMENTS_PER_TURN_MAX == 0:
                yield None
    return None


def newest(segments: Sequence[Segment], *, offset_limit: int) -> Search:
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
        file = segment.file
        for position, header in headers(file, start_position, segment.size_bytes):
            if header.max_timestamp_ms == timestamp_ms:
                found = yield OpenedBatch(file, position, header, timestamp_ms, 0)
                if found is not None and found.offset < offset_limit:
                    return found
                break
            if header.base_offset > offset:
                break
    # The index names a batch that is not yet committed: look through what is left.
    return (yield from _newest_by_scan(segments, offset_limit=offset_limit))


def _newest_by_scan(segments: Sequence[Segment], *, offset_limit: int) -> Search:
    best: tuple[Segment, int, BatchHeader] | None = None
    for segment in segments:
        for number, (position, header) in enumerate(headers(segment.file, 0, segment.size_bytes), 1):
            if number % REQUEST_ELEMENTS_PER_TURN_MAX == 0:
                yield None
            inside = header.base_offset < offset_limit
            if inside and (best is None or header.max_timestamp_ms > best[2].max_timestamp_ms):
                best = segment, position, header
    if best is None or best[2].max_timestamp_ms < 0:
        return None
    segment, position, header = best
    return (yield OpenedBatch(segment.file, position, header, header.max_timestamp_ms, 0))
