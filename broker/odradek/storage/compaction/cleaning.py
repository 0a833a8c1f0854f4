"""One round of compaction on one log: a first pass that maps keys, a second that writes new segments.

`clean` is a generator: it yields a run once its new segments are on the device, and continues when the caller has
swapped them in. It changes no file but the `.cleaned` ones. A caller that stops in between leaves a log of which the
older part is cleaned. Newer records of a key are still there, so nothing is lost.

    pass 1   batches from the first dirty offset up to the first uncleanable one; aborted data and markers left out
    pass 2   all segments from the log's first up to where the map ends, in runs that each become one segment

What stays is Apache Kafka's (`Cleaner.cleanInto`), except for two things. A tombstone or marker also stays until all
replicas have cleaned past it. And the last batch of each run stays, without records if need be, so that a swap can be
completed after a crash (`segment_swap`).

A batch that changes keeps its base offset, its last offset delta, its sequence numbers, its epochs, its flags and its
codec. So offsets and sequences never change. A batch that has to stay without records is its header alone.

The first round that meets a tombstone, or a marker whose data is gone, gives the batch a delete horizon (KIP-534). The
base timestamp becomes the time from which it may be removed, attribute bit 6 says so, and the records' deltas are
counted from it. Readers add base timestamp and delta, so the records' times stay what they were.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from odradek.foundation.errors import CorruptRecord
from odradek.storage.compaction.offset_map import Kept, OffsetMap, Retention
from odradek.storage.compaction.reading import StoredBatch, portions, windows
from odradek.storage.compaction.segment_writer import SegmentWriter
from odradek.storage.compaction.task import CleanedRun, CleaningSummary, CleaningTask, SourceSegment
from odradek.storage.files import Disk, DiskFile
from odradek.storage.segment import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from odradek.storage.transaction_index import AbortedTxn, TransactionIndex
from odradek.wire.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    BatchView,
    Buffer,
)
from odradek.wire.records.builder import frame
from odradek.wire.records.compression import compress
from odradek.wire.records.control import ControlType, control_type
from odradek.wire.records.record import record_spans, records
from odradek.wire.records.varint import decode_varint, decode_varlong, encode_varint

RELATIVE_OFFSET_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The means of a round."""

    disk: Disk
    offset_map: OffsetMap
    spend: Callable[[int], None] = lambda size_bytes: None
    """Called with the bytes of each read and write; it may wait."""
    seconds: Callable[[], float] = time.monotonic


def clean(task: CleaningTask, means: Means, summary: CleaningSummary) -> Iterator[CleanedRun]:
    """Clean one log; `summary` is complete at the end.

    Raises CorruptRecord when a batch is damaged or no key fits the map, OSError.
    """
    return _CleaningRound(task, means, summary).run()


def groups(
    segments: Sequence[SourceSegment], *, segment_bytes: int, index_bytes: int
) -> list[list[SourceSegment]]:
    """Runs of segments that fit one segment together, by size, by their indexes' sizes and by offsets."""
    found: list[list[SourceSegment]] = []
    size = offsets_size = times_size = 0
    for segment in segments:
        size += segment.size_bytes
        offsets_size += segment.index_bytes
        times_size += segment.time_index_bytes
        if (
            not found
            or size > segment_bytes
            or offsets_size > index_bytes
            or times_size > index_bytes
            or (
                segment.size_bytes
                and segment.next_base_offset - 1 - found[-1][0].base_offset > RELATIVE_OFFSET_MAX
            )
        ):
            found.append([])
            size = segment.size_bytes
            offsets_size, times_size = segment.index_bytes, segment.time_index_bytes
        found[-1].append(segment)
    return found


class _CleaningRound:
    def __init__(self, task: CleaningTask, means: Means, summary: CleaningSummary) -> None:
        self._task = task
        self._disk = means.disk
        self._map = means.offset_map
        self._spend = means.spend
        self._seconds = means.seconds
        self._summary = summary
        self._retention = Retention(now_ms=task.now_ms, removal_bound_offset=task.removal_bound_offset)
        self._horizon_ms = task.now_ms + task.delete_retention_ms
        # Base offsets of segments whose pages were not in memory, so that no reader is in them.
        self._cold: set[int] = set()
        self._transactions: TransactionPass

    def run(self) -> Iterator[CleanedRun]:
        task, summary = self._task, self._summary
        aborted = self._read_aborted_transactions()
        began = self._seconds()
        self._map_keys(aborted)
        summary.map_seconds = self._seconds() - began
        summary.map_entries, summary.map_bytes = len(self._map), self._map.size_bytes
        summary.map_fill_ratio = self._map.fill_ratio
        self._transactions = TransactionPass(aborted)
        end = self._map.latest_offset + 1
        for group in groups(
            [segment for segment in task.segments if segment.base_offset < end],
            segment_bytes=task.segment_bytes,
            index_bytes=task.segment_index_bytes,
        ):
            began = self._seconds()
            run = self._write(group)
            summary.write_seconds += self._seconds() - began
            if run.base_offsets:
                yield run
        summary.next_dirty_offset = end

    def _read_aborted_transactions(self) -> list[AbortedTxn]:
        found: list[AbortedTxn] = []
        for base_offset in self._task.transaction_indexes:
            path = f"{self._task.directory}/{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"
            found += TransactionIndex(path, disk=self._disk, has_file=True).entries()
        return found

    def _open(self, segment: SourceSegment) -> DiskFile:
        file = self._disk.open(f"{self._task.directory}/{segment.base_offset:020d}{LOG_SUFFIX}")
        if segment.size_bytes and file.pread_cached(0, min(segment.size_bytes, 4096)) is None:
            self._cold.add(segment.base_offset)
        return file

    def _windows(self, file: DiskFile, segment: SourceSegment) -> Iterator[list[StoredBatch]]:
        def on_read(size_bytes: int) -> None:
            self._summary.bytes_read += size_bytes
            self._spend(size_bytes)

        return windows(
            file,
            segment.size_bytes,
            offsets=range(segment.base_offset, segment.next_base_offset),
            window_bytes=self._task.window_bytes,
            on_read=on_read,
        )

    # --- pass 1 ------------------------------------------------------------------------------------------------------

    def _map_keys(self, aborted: Sequence[AbortedTxn]) -> None:
        task = self._task
        transactions = TransactionPass(one for one in aborted if one.last_offset >= task.first_dirty_offset)
        for segment in task.segments:
            if segment.next_base_offset <= task.first_dirty_offset:
                continue
            file = self._open(segment)
            for batches in self._windows(file, segment):
                data = _data(batches, transactions)
                for part in portions(data, size_of=StoredBatch.load, bytes_max=task.portion_bytes):
                    if self._map.add(part, task.first_dirty_offset):
                        self._require_progress()
                        return
                    for batch in part:
                        batch.release()
        # Offsets above the last record are not in use: the next round begins where this one may not continue.
        self._map.latest_offset = task.first_uncleanable_offset - 1

    def _require_progress(self) -> None:
        """Raises CorruptRecord when the map, which is full, knows no key."""
        task = self._task
        if self._map.latest_offset < task.first_dirty_offset:
            raise CorruptRecord(
                f"{task.name}: not one key fits a map of {task.map_bytes} bytes; raise log.cleaner.dedupe.buffer.size"
            )

    # --- pass 2 ------------------------------------------------------------------------------------------------------

    def _write(self, group: Sequence[SourceSegment]) -> CleanedRun:
        task = self._task
        writer = SegmentWriter(
            self._disk,
            task.directory,
            group[0].base_offset,
            segment_bytes=max(task.segment_bytes, 1),
            index_interval_bytes=task.index_interval_bytes,
            now_ms=task.now_ms,
        )
        last = max((number for number, one in enumerate(group) if one.size_bytes), default=-1)
        is_changed = len(group) > 1
        for number, segment in enumerate(group):
            self._summary.bytes_before += segment.size_bytes
            file = self._open(segment)
            end = segment.size_bytes if number == last else -1
            for batches in self._windows(file, segment):
                verdicts = map(self._judge_batch, batches)
                for part in portions(verdicts, size_of=_Verdict.load, bytes_max=task.portion_bytes):
                    is_changed = self._write_part(writer, part, end) or is_changed
            if segment.base_offset in self._cold:
                file.drop_cached()
        if not is_changed:
            writer.discard()
            return CleanedRun(replaced=(), base_offsets=())
        is_cached = any(one.base_offset not in self._cold for one in group)
        writer.finish(modified_ms=group[-1].modified_ms, is_cached=is_cached)
        return CleanedRun(replaced=tuple(one.base_offset for one in group), base_offsets=writer.base_offsets)

    def _judge_batch(self, batch: StoredBatch) -> _Verdict:
        """The verdict on a batch without its keys. Batches are shown to it once each, in their order."""
        verdict = _Verdict(batch)
        if batch.header.is_control:
            self._judge_marker(verdict)
        elif self._transactions.is_aborted(batch):
            verdict.kept = _NOTHING
        else:
            verdict.needs_keys = batch.header.base_offset <= self._map.latest_offset
        return verdict

    def _write_part(self, writer: SegmentWriter, verdicts: Sequence[_Verdict], end: int) -> bool:
        """Write what stays of these batches; whether anything changed. `end` is where the run's last batch ends."""
        latest = self._map.latest_offset
        by_keys = [one for one in verdicts if one.needs_keys]
        found = self._map.keep_newest([one.batch for one in by_keys], self._retention)
        for verdict, kept in zip(by_keys, found, strict=True):
            verdict.kept = kept
            verdict.needs_horizon = (
                kept.has_tombstone
                and not verdict.batch.header.has_delete_horizon
                and verdict.batch.header.last_offset <= latest
            )
        is_changed = False
        for verdict in verdicts:
            batch = verdict.batch
            written = self._replacement(
                verdict, must_stay=batch.end == end or self._is_last_of_producer(batch)
            )
            self._summary.records_read += batch.header.record_count
            if written is not batch.raw:
                is_changed = True
            if written is not None:
                size = len(written)
                self._summary.bytes_written += size
                self._spend(size)
                self._summary.records_kept += writer.append(written, verdict.aborted)
            batch.release()
        return is_changed

    def _judge_marker(self, verdict: _Verdict) -> None:
        header = verdict.batch.header
        may_go, verdict.aborted = self._transactions.end(verdict.batch)
        if not may_go or header.last_offset > self._map.latest_offset:
            return
        if not header.has_delete_horizon:
            verdict.kept = _all_of(verdict.batch)
            verdict.needs_horizon = header.record_count > 0
        elif self._retention.is_over(verdict.batch):
            verdict.kept = _NOTHING

    def _is_last_of_producer(self, batch: StoredBatch) -> bool:
        """Whether a producer's state would be lost with this batch: its last one, or its last marker."""
        header = batch.header
        state = self._task.producers.get(header.producer_id)
        if state is None or header.producer_id < 0:
            return False
        epoch, last_offset = state
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _replacement(self, verdict: _Verdict, *, must_stay: bool) -> Buffer | None:
        batch, kept = verdict.batch, verdict.kept
        if kept is None:
            return batch.raw
        if batch.header.is_control and (must_stay or kept.record_count):
            # A marker that has to stay, stays whole: it says its producer's epoch.
            return rewritten(batch, _all_of(batch), horizon_ms=self._horizon(verdict))
        if kept.record_count:
            return rewritten(batch, kept, horizon_ms=self._horizon(verdict))
        if not must_stay:
            return None
        return batch.raw if batch.header.record_count == 0 else empty_batch(batch)

    def _horizon(self, verdict: _Verdict) -> int | None:
        return self._horizon_ms if verdict.needs_horizon else None


class _Verdict:
    """The part of a batch that stays; `kept` None: all of it, as it is."""

    __slots__ = ("aborted", "batch", "kept", "needs_horizon", "needs_keys")

    def __init__(self, batch: StoredBatch) -> None:
        self.batch = batch
        self.kept: Kept | None = None
        self.needs_horizon = False
        self.needs_keys = False
        self.aborted: AbortedTxn | None = None

    def load(self) -> int:
        """Decompress the batch if its keys are needed; about how many bytes it takes to work on it."""
        return self.batch.load() if self.needs_keys else 0


_NOTHING = Kept(0, b"", False, -1)


def _data(batches: Sequence[StoredBatch], transactions: TransactionPass) -> Iterator[StoredBatch]:
    """Those whose keys count: no markers, nothing aborted."""
    for batch in batches:
        if batch.header.is_control:
            transactions.end(batch)
        elif not transactions.is_aborted(batch):
            yield batch


def _all_of(batch: StoredBatch) -> Kept:
    return Kept(batch.header.record_count, None, False, batch.header.max_timestamp_ms)


def rewritten(batch: StoredBatch, kept: Kept, *, horizon_ms: int | None) -> bytes | bytearray | memoryview:
    """The batch with the records that stay, of which there is one at least; `horizon_ms` is a horizon to set.

    Raises CorruptRecord.
    """
    if kept.payload is None and horizon_ms is None:
        return batch.raw
    header = batch.header
    payload = batch.payload if kept.payload is None else kept.payload
    attributes = header.attributes & ~COMPRESSION_MASK | batch.codec
    max_timestamp_ms = header.max_timestamp_ms
    if kept.payload is not None and not attributes & LOG_APPEND_TIME_FLAG:
        max_timestamp_ms = kept.max_timestamp_ms
    header = header._replace(
        attributes=attributes, record_count=kept.record_count, max_timestamp_ms=max_timestamp_ms
    )
    if horizon_ms is not None:
        payload = _with_base_timestamp(bytes(payload), header, horizon_ms)
        header = header._replace(attributes=attributes | DELETE_HORIZON_FLAG, base_timestamp_ms=horizon_ms)
    return frame(header, compress(payload, batch.codec))


def empty_batch(batch: StoredBatch) -> bytearray:
    """The batch without its records."""
    header = batch.header
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return frame(header._replace(attributes=attributes, base_timestamp_ms=-1, record_count=0), b"")


def _with_base_timestamp(payload: bytes, header: BatchHeader, base_timestamp_ms: int) -> bytes:
    """The records with their timestamp deltas counted from another base timestamp."""
    parts: list[bytes] = []
    shift = header.base_timestamp_ms - base_timestamp_ms
    for span in record_spans(payload, record_count=header.record_count):
        _, position = decode_varint(payload, span.start)
        _, after = decode_varlong(payload, position + 1)
        body = payload[position : position + 1] + encode_varint(span.timestamp_delta_ms + shift)
        size = len(body) + span.end - after
        parts += (encode_varint(size), body, payload[after : span.end])
    return b"".join(parts)


class _Aborted:
    __slots__ = ("has_data", "transaction")

    def __init__(self, transaction: AbortedTxn) -> None:
        self.transaction = transaction
        self.has_data = False


class TransactionPass:
    """Which transactions a pass over a log meets: whose data goes, and whose marker may go.

    One object is used for one pass over all segments from the log's start on, in all groups of segments. Data below the
    first uncleanable offset belongs to transactions that have ended, so each is either aborted, and in an index, or
    committed. A marker may be removed once no batch of its transaction is left, also not an empty one. A marker without
    data means nothing. Data without its marker would open the transaction again (KAFKA-8351).

    Batches are shown to it in the order of their offsets, each once.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = [(one.first_offset, one.last_offset, one) for one in aborted]
        heapq.heapify(self._to_come)
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()

    def is_aborted(self, batch: StoredBatch) -> bool:
        """Whether this batch of data belongs to an aborted transaction."""
        header = batch.header
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        aborted = self._aborted.get(header.producer_id)
        # One that ended before is left when its marker lies below the pass, or is gone.
        if aborted is None or aborted.transaction.last_offset < header.base_offset:
            self._committed.add(header.producer_id)
            return False
        aborted.has_data = True
        return True

    def end(self, batch: StoredBatch) -> tuple[bool, AbortedTxn | None]:
        """Whether this control batch may go, and the aborted transaction that it ends and whose data was met.

        Raises CorruptRecord.
        """
        header = batch.header
        self._begin_up_to(header.last_offset)
        record = next(iter(records(BatchView(batch.raw))), None)
        if record is None:
            return True, None
        kind = control_type(record)
        producer_id = header.producer_id
        if kind == ControlType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if (
                aborted is None
                or not aborted.has_data
                or aborted.transaction.last_offset < header.base_offset
            ):
                return True, None
            return False, aborted.transaction
        if kind == ControlType.COMMIT:
            if producer_id not in self._committed:
                return True, None
            self._committed.discard(producer_id)
        return False, None

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[0][0] <= offset:
            transaction = heapq.heappop(self._to_come)[2]
            self._aborted[transaction.producer_id] = _Aborted(transaction)
