"""Checks the segments of a log after a stop that was not clean.

Everything below the recovery point was synced; only the segment that holds it and those after it are read. The first
damaged batch ends the log. Its segment is truncated there and the later segments are removed: readers may have seen
other records behind the hole. An error with the number of bytes says what was removed and why, since records may have
been lost. In a cluster, the other replicas have them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.storage.config import LogConfig
from odradek.storage.epochs import EpochEntry, LeaderEpochs
from odradek.storage.headers import header_at, headers
from odradek.storage.open_transactions import CompletedTransaction
from odradek.storage.producers import ProducerStates
from odradek.storage.scan import Scan, ScanRules, scan
from odradek.storage.segment import Segment
from odradek.storage.transaction_index import AbortedTxn
from odradek.wire.records.batch import HEADER_BYTES, BatchHeader, BatchView

logger = logging.getLogger(__name__)

# SegmentSet below this are scanned in a fraction of a second; a line for each would hide the others.
_REPORTED_BYTES_MIN: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class Recovery:
    """The results of recovering a log."""

    kept: list[Segment]
    removed: list[Segment]
    next_offset: int
    bytes_scanned: int = 0
    bytes_truncated: int = 0
    producer_tails: dict[int, list[int]] = field(default_factory=dict)
    """By base offset, for segments without transactions: where the producers' newest batches are, rising."""


def first_to_scan(segments: Sequence[Segment], recovery_point: int) -> int:
    """The number of the segment that holds the last synced record.

    Not the one that begins at the recovery point. The one before it may have been closed since the last flush, and its
    indexes written but not synced.
    """
    return max((number for number, one in enumerate(segments) if one.base_offset < recovery_point), default=0)


def recover(
    segments: Sequence[Segment],
    *,
    recovery_point: int,
    config: LogConfig,
    epochs: LeaderEpochs,
    name: str,
    on_loss: Callable[[], None],
) -> Recovery:
    """Scan from the recovery point's segment on; truncate at the first damaged batch. Raises OSError.

    `on_loss` is called before that: the next start finds a whole log, and no sign of what was removed. The removed
    segments' files are still there: the caller deletes them. The transaction indexes are left to it, too.
    """
    first = first_to_scan(segments, recovery_point)
    result = Recovery(kept=list(segments[:first]), removed=[], next_offset=segments[first].base_offset)
    known_epochs = tuple(epochs.entries)
    for number in range(first, len(segments)):
        segment = segments[number]
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if segment.size_bytes >= _REPORTED_BYTES_MIN:
            logger.info(
                "%s: segment %d of %d, from offset %d, is scanned: %.0f MB",
                name,
                number + 1,
                len(segments),
                segment.base_offset,
                segment.size_bytes / 1e6,
            )
        found = _scan(
            segment,
            config,
            next_base_offset=next_base,
            epochs=known_epochs,
            is_end_synced=next_base is not None and next_base <= recovery_point,
        )
        truncated_bytes = segment.size_bytes - found.valid_bytes
        result.bytes_scanned += segment.size_bytes
        if found.problem is not None:
            on_loss()
        if truncated_bytes:
            segment.file.truncate(found.valid_bytes)
            # The removed bytes must not reappear after the next crash, when they may be below the recovery point.
            segment.file.sync()
        segment.apply_scan(found)
        if found.producer_tails is not None:
            result.producer_tails[segment.base_offset] = sorted(
                position
                for tail in found.producer_tails.values()
                for position in tail
                if position < found.valid_bytes
            )
        for epoch, start_offset in found.epoch_starts:
            if epoch > epochs.latest_epoch:
                epochs.assign(epoch=epoch, start_offset=start_offset)
        result.kept.append(segment)
        result.next_offset = found.next_offset
        if found.problem is not None:
            result.removed = list(segments[number + 1 :])
            result.bytes_truncated = truncated_bytes + sum(one.size_bytes for one in result.removed)
            logger.error(
                "%s: %s at position %d of %s.log: %d bytes and %d later segments are truncated (%d bytes in all). The "
                "log now ends at offset %d.",
                name,
                found.problem,
                found.valid_bytes,
                segment.path,
                truncated_bytes,
                len(result.removed),
                result.bytes_truncated,
                found.next_offset,
            )
            break
    return result


def rebuild_indexes(segment: Segment, *, config: LogConfig, name: str, why: str) -> None:
    """Read a segment because its indexes are absent or wrong; its log file stays as it is. Raises OSError."""
    logger.warning("%s: the indexes of %s.log are rebuilt: %s", name, segment.path, why)
    found = _scan(segment, config, next_base_offset=None, epochs=())
    size_bytes = segment.size_bytes
    segment.apply_scan(found)
    segment.size_bytes = size_bytes
    if found.valid_bytes != size_bytes:
        logger.error(
            "%s: %s at position %d of %s.log, in a part that was synced: what lies behind it may not be readable",
            name,
            found.problem,
            found.valid_bytes,
            segment.path,
        )


def _scan(
    segment: Segment,
    config: LogConfig,
    *,
    next_base_offset: int | None,
    epochs: tuple[EpochEntry, ...],
    is_end_synced: bool = True,
) -> Scan:
    rules = ScanRules(
        base_offset=segment.base_offset,
        index_interval_bytes=config.index_interval_bytes,
        gaps_allowed=config.cleanup_compact,
        next_base_offset=next_base_offset,
        is_end_synced=is_end_synced,
        epochs=epochs,
    )
    return scan(segment.file, segment.size_bytes, rules)


def replay_producers(
    segments: Sequence[Segment],
    producers: ProducerStates,
    *,
    from_offset: int,
    now_ms: int,
    rebuild_aborts: bool,
    tails: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Advance the producers' state from a snapshot at `from_offset` up to the end of these segments.

    Reads headers only, and whole control batches; of the segments in `tails` only those batches that a scan found to
    matter. With `rebuild_aborts` the transaction indexes get the aborts that they lack. Raises OSError, CorruptRecord.
    """
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= from_offset:
            continue
        positions = None if tails is None else tails.get(segment.base_offset)
        if positions is not None:
            _replay_tails(segment, positions, producers, from_offset=from_offset, now_ms=now_ms)
            continue
        start_position = segment.position_of(from_offset) if from_offset > segment.base_offset else 0
        if start_position < 0:
            continue
        last_abort = max((one.last_offset for one in segment.transaction_index.entries()), default=-1)
        for position, header in headers(segment.file, start_position, segment.size_bytes):
            # A batch that holds the log's start counts, although it begins below.
            if header.producer_id < 0 or header.last_offset < from_offset:
                continue
            completed = replay_batch(segment, position, header, producers, now_ms=now_ms)
            if completed is not None and rebuild_aborts and completed.last_offset > last_abort:
                note_abort(segment, producers, completed)


def _replay_tails(
    segment: Segment, positions: Sequence[int], producers: ProducerStates, *, from_offset: int, now_ms: int
) -> None:
    for position in positions:
        header = header_at(segment.file.pread(position, HEADER_BYTES), 0)
        if header.last_offset >= from_offset:
            replay_batch(segment, position, header, producers, now_ms=now_ms)


def replay_batch(
    segment: Segment, position: int, header: BatchHeader, producers: ProducerStates, *, now_ms: int
) -> CompletedTransaction | None:
    """Apply a stored batch to the producers; the transaction that it ended, None for none."""
    if header.is_control:
        data = memoryview(segment.file.pread(position, header.size_bytes))
        return producers.replay(BatchView(data), now_ms=now_ms)
    producers.note(
        header, first_offset=header.base_offset, timestamp_ms=header.max_timestamp_ms, now_ms=now_ms
    )
    return None


def note_abort(segment: Segment, producers: ProducerStates, completed: CompletedTransaction) -> None:
    """Put an aborted transaction into the index of the segment that holds its marker. Raises OSError."""
    if completed.is_aborted:
        segment.transaction_index.append(
            AbortedTxn(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                producers.transactions.last_stable_offset_after(completed),
            )
        )
