"""What a partition knows of its producers: sequence numbers, epochs and open transactions.

An idempotent producer numbers its batches. The last five are remembered per producer. A batch that comes again is
answered with its old offset and not written twice. A batch that comes after a gap is refused, so the sequence holds. A
transactional producer's first undecided offset bounds what a read-committed consumer may see.

The rules are Apache Kafka 4.1's:

- A producer that is not known here may start at any sequence number: its state may have expired.
- A producer with a new epoch starts at 0. An older epoch than the newest seen is refused.
- After sequence number 2^31-1 comes 0.

A log calls `check` before it writes a batch and `note` after it. `replay` is for batches that were accepted already:
by recovery, or by a leader. Snapshots spare the start from reading the whole log; see `producer_snapshots`. A snapshot
has the last batch of each producer alone. `older_batches` finds the four before it in the log when one of them may have
come again. The transaction coordinator decides who may write transactionally, and when a transaction ends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from odradek.foundation.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCER_IDS_PER_PARTITION_MAX
from odradek.log.producer_snapshots import SnapshotDamagedError, SnapshotEntry, SnapshotFiles
from odradek.records.batch import SEQUENCE_MAX, TRANSACTIONAL_FLAG, BatchHeader, BatchView
from odradek.records.control import Marker, parse_marker

logger = logging.getLogger(__name__)

EXPIRATION_MS_DEFAULT: Final = 24 * 60 * 60 * 1000

# A named tuple's own constructor takes three times as long, for every batch.
_new_tuple = tuple.__new__


class AppendedBatch(NamedTuple):
    """A batch that was written: the answer to a duplicate of it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended: its first offset and the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class _Producer:
    """What is remembered of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_restored",
        "last_seen_ms",
        "timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self, *, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[AppendedBatch] = []
        # Restored from a snapshot, which has the last batch alone.
        self.is_restored = False
        self.timestamp_ms = -1
        self.last_seen_ms = -1
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1


class ProducerStates:
    """The producers of one partition. `files` None keeps them in memory alone."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        files: SnapshotFiles | None = None,
        expiration_ms: int = EXPIRATION_MS_DEFAULT,
        producers_max: int = PRODUCER_IDS_PER_PARTITION_MAX,
    ) -> None:
        self.topic_partition = topic_partition
        self.files = files
        self.expiration_ms = expiration_ms
        self._producers_max = producers_max
        self._producers: dict[int, _Producer] = {}
        # First offset to producer id, in the order of offsets, for transactions that no marker has ended.
        self._open: dict[int, int] = {}
        # Ended by a marker that may still lie above the high watermark, in the markers' order.
        self._unreplicated: deque[CompletedTransaction] = deque()
        self._snapshot_offset = -1

    def __len__(self) -> int:
        return len(self._producers)

    # --- produced batches --------------------------------------------------------------------------------------------

    def check(self, header: BatchHeader, *, is_client: bool = True) -> AppendedBatch | None:
        """Whether a batch with a producer id may be written: None for yes, the old batch for a duplicate.

        Without `is_client` only the epoch is checked: the broker's own writes have no sequence numbers.
        Raises OutOfOrderSequence, InvalidProducerEpoch, InvalidTxnState.
        """
        _, _, _, _, _, attributes, offset_delta, _, _, producer_id, epoch, sequence, _ = header
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch < producer.epoch:
            raise self._old_epoch(producer_id, epoch, producer)
        if is_client:
            batches = producer.batches
            if epoch != producer.epoch:
                if sequence != 0 and producer.epoch != -1:
                    raise OutOfOrderSequence(
                        f"producer {producer_id} starts epoch {epoch} on {self.topic_partition} with the"
                        f" sequence number {sequence}; a new epoch starts with 0 (before: {producer.epoch})"
                    )
            elif sequence != ((batches[-1].last_sequence + 1) & SEQUENCE_MAX if batches else 0):
                last_sequence = (sequence + offset_delta) & SEQUENCE_MAX
                for batch in batches:
                    if batch.last_sequence == last_sequence and batch.first_sequence == sequence:
                        return batch
                raise OutOfOrderSequence(
                    f"producer {producer_id} (epoch {epoch}) sent the sequence number {sequence} to"
                    f" {self.topic_partition} where {batches[-1].last_sequence if batches else -1} was the last;"
                    " a batch before it is missing, or it is older than those remembered"
                )
        if producer.transaction_first_offset >= 0 and not attributes & TRANSACTIONAL_FLAG:
            raise InvalidTxnState(
                f"producer {producer_id} has a transaction open on {self.topic_partition} since offset"
                f" {producer.transaction_first_offset} and sent a batch outside of it"
            )
        return None

    def note(self, header: BatchHeader, *, first_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """A data batch with a producer id was written at `first_offset`.

        `timestamp_ms` is its max timestamp as stored. `header` may be from before offsets were assigned.
        """
        _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, base_sequence, _ = header
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
            producer.is_restored = False
        batches = producer.batches
        if len(batches) >= PRODUCER_BATCHES_REMEMBERED:
            del batches[0]
        last_sequence = (base_sequence + delta) & SEQUENCE_MAX if base_sequence >= 0 else -1
        batches.append(_new_tuple(AppendedBatch, (last_sequence, first_offset + delta, delta, timestamp_ms)))
        producer.timestamp_ms = timestamp_ms
        producer.last_seen_ms = now_ms if now_ms > timestamp_ms else timestamp_ms
        if attributes & TRANSACTIONAL_FLAG and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = first_offset
            self._open[first_offset] = producer_id

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """The sequence number with which the producer goes on in this epoch; None when nothing of it is known."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch != producer.epoch or not producer.batches:
            return 0
        return (producer.batches[-1].last_sequence + 1) & SEQUENCE_MAX

    # --- what a snapshot does not have -------------------------------------------------------------------------------

    def unremembered_below(self, header: BatchHeader) -> int | None:
        """Where to look for batches of this producer and epoch that a snapshot did not have: below this offset.

        None when all that can be duplicates are remembered.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None or not producer.is_restored or producer.epoch != header.producer_epoch:
            return None
        batches = producer.batches
        if not batches or len(batches) >= PRODUCER_BATCHES_REMEMBERED:
            return None
        return batches[0].first_offset

    def remember_older(self, producer_id: int, older: Sequence[AppendedBatch]) -> None:
        """Add all older batches that were found, in the log's order."""
        producer = self._producers[producer_id]
        producer.batches[:0] = older
        del producer.batches[: max(len(producer.batches) - PRODUCER_BATCHES_REMEMBERED, 0)]
        producer.is_restored = False

    def _add(self, producer_id: int, epoch: int) -> _Producer:
        if len(self._producers) >= self._producers_max:
            self._forget_oldest()
        producer = self._producers[producer_id] = _Producer(epoch=epoch)
        return producer

    def _forget_oldest(self) -> None:
        """Forget a tenth of the producers without an open transaction: those that are silent for longest."""
        idle = sorted(
            (producer.last_seen_ms, producer_id)
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset < 0
        )
        for _, producer_id in idle[: max(len(idle) // 10, 1)]:
            del self._producers[producer_id]
        logger.warning(
            "%s knows %d producer ids, the most it keeps; the oldest were forgotten as if they had expired",
            self.topic_partition,
            self._producers_max,
        )

    # --- transactions ------------------------------------------------------------------------------------------------

    def check_marker(self, marker: Marker) -> None:
        """Whether a marker may be written. Raises InvalidProducerEpoch, TransactionCoordinatorFenced."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return
        if marker.producer_epoch < producer.epoch:
            raise self._old_epoch(marker.producer_id, marker.producer_epoch, producer)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"the marker of producer {marker.producer_id} for {self.topic_partition} is of coordinator"
                f" epoch {marker.coordinator_epoch}; {producer.coordinator_epoch} has written since"
            )

    def end_transaction(self, marker: Marker, *, offset: int, now_ms: int) -> CompletedTransaction | None:
        """A marker was written at `offset`. The transaction that it ended; None when none had data here."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            producer = self._add(marker.producer_id, marker.producer_epoch)
        elif producer.epoch != marker.producer_epoch:
            producer.epoch = marker.producer_epoch
            producer.batches.clear()
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.timestamp_ms = marker.timestamp_ms
        producer.last_seen_ms = max(now_ms, marker.timestamp_ms)
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        producer.transaction_first_offset = -1
        self._open.pop(first_offset, None)
        completed = CompletedTransaction(marker.producer_id, first_offset, offset, not marker.is_commit)
        self._unreplicated.append(completed)
        return completed

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins; None when none is open."""
        return next(iter(self._open)) if self._open else None

    def first_unstable_offset(self, *, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker is not below `high_watermark`."""
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            unreplicated.popleft()
        first = self.first_undecided_offset
        for completed in unreplicated:
            if first is None or completed.first_offset < first:
                first = completed.first_offset
        return first

    def last_stable_offset(self, *, high_watermark: int) -> int:
        """All below is held by the whole in-sync set and belongs to no open transaction."""
        if not self._open and not self._unreplicated:
            return high_watermark
        first = self.first_unstable_offset(high_watermark=high_watermark)
        return high_watermark if first is None or first > high_watermark else first

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once `completed` has ended, as an index of aborts stores it."""
        first = self.first_undecided_offset
        return completed.last_offset + 1 if first is None else first

    # --- batches that were taken already -----------------------------------------------------------------------------

    def replay(self, batch: BatchView, *, now_ms: int) -> CompletedTransaction | None:
        """Apply a stored batch unchecked: another leader accepted it, or this one before a restart.

        Raises CorruptRecord when a control batch cannot be read.
        """
        header = batch.header
        if header.producer_id < 0:
            return None
        if header.is_control:
            marker = parse_marker(batch)
            if marker is None:
                return None
            return self.end_transaction(marker, offset=header.base_offset, now_ms=now_ms)
        self.note(
            header, first_offset=header.base_offset, timestamp_ms=header.max_timestamp_ms, now_ms=now_ms
        )
        return None

    def expire(self, *, now_ms: int) -> int:
        """Forget producers without an open transaction that were silent for `expiration_ms`; how many."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset < 0 and now_ms - producer.last_seen_ms >= self.expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def entries(self) -> list[SnapshotEntry]:
        """Every producer, for snapshots and DescribeProducers."""
        return [
            SnapshotEntry(
                producer_id,
                producer.epoch,
                *(producer.batches[-1][:3] if producer.batches else (-1, -1, 0)),
                producer.timestamp_ms,
                producer.coordinator_epoch,
                producer.transaction_first_offset,
            )
            for producer_id, producer in self._producers.items()
        ]

    def clear(self) -> None:
        """Forget everything but the snapshots on disk."""
        self._producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._snapshot_offset = -1

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def take_snapshot(self, offset: int, *, sync: bool = True) -> bool:
        """Write what is known now as the state below `offset`, the log's end; not twice for one offset.

        Whether one was written. Raises OSError.
        """
        if self.files is None or offset <= self._snapshot_offset:
            return False
        self.files.write(offset, self.entries(), sync=sync)
        self._snapshot_offset = offset
        return True

    def reload(
        self,
        *,
        log_start_offset: int,
        log_end_offset: int,
        now_ms: int,
        snapshots: Collection[int] | None = None,
    ) -> int:
        """Forget everything and load the newest usable snapshot of a log that spans these offsets.

        `snapshots` are the offsets of those that there are, where they are known; else the directory is listed.
        Returns the offset from which the log's batches are to be replayed. Snapshots that do not fit the log
        (it was truncated, or records were deleted) and damaged ones are removed. Raises OSError.
        """
        self.clear()
        self._snapshot_offset = log_start_offset
        if self.files is None:
            return log_start_offset
        for offset in sorted(self.files.offsets() if snapshots is None else snapshots, reverse=True):
            if offset > log_end_offset or offset <= log_start_offset:
                self.files.remove(offset)
                continue
            if self._snapshot_offset > log_start_offset:
                continue
            try:
                entries = self.files.read(offset)
            except SnapshotDamagedError as error:
                logger.warning("%s: a producer snapshot is removed: %s", self.topic_partition, error)
                self.files.remove(offset)
                continue
            self._restore(entries, now_ms=now_ms)
            self._snapshot_offset = offset
        return self._snapshot_offset

    def _restore(self, entries: Collection[SnapshotEntry], *, now_ms: int) -> None:
        for entry in entries:
            is_open = entry.transaction_first_offset >= 0
            if not is_open and now_ms - entry.timestamp_ms >= self.expiration_ms:
                continue
            producer = self._producers[entry.producer_id] = _Producer(epoch=entry.producer_epoch)
            producer.is_restored = True
            if entry.last_offset >= 0:
                producer.batches.append(
                    AppendedBatch(
                        entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp_ms
                    )
                )
            producer.timestamp_ms = producer.last_seen_ms = entry.timestamp_ms
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.transaction_first_offset = entry.transaction_first_offset
        self._open = dict(
            sorted(
                (producer.transaction_first_offset, producer_id)
                for producer_id, producer in self._producers.items()
                if producer.transaction_first_offset >= 0
            )
        )

    def _old_epoch(self, producer_id: int, epoch: int, producer: _Producer) -> InvalidProducerEpoch:
        return InvalidProducerEpoch(
            f"producer {producer_id} wrote to {self.topic_partition} with epoch {epoch}; {producer.epoch}"
            " has been seen, so a newer instance of it took over"
        )
