"""The state of a partition's producers: sequence numbers, epochs and open transactions.

An idempotent producer numbers its batches. The last five are remembered per producer. A batch that comes again is
answered with its old offset and not written twice. A batch that comes after a gap is refused, so the sequence holds. A
transactional producer's first undecided offset bounds what a read-committed consumer may see.

The rules are Apache Kafka 4.1's:

- A producer that is not known here may start at any sequence number: its state may have expired.
- A producer with a new epoch starts at 0. An older epoch than the newest seen is refused.
- After sequence number 2^31-1 comes 0.
- A transaction begins only with a token that was made before its verification (`verification`). Where the verification
  adds the partition, the producer's first sequence number is 0.
- A marker of a transaction of version 2 has an epoch above that of the data.

A log calls `check` before it writes a batch and `note` after it. `replay` is for batches that were accepted already: by
recovery, or by a leader. Snapshots spare the start from reading the whole log; see `producer_snapshots`. A snapshot has
the last batch of each producer alone. `older_batches` finds the four before it in the log when one of them may have
come again. The transaction coordinator decides which producers may write transactionally, and when a transaction ends.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import PRODUCER_BATCHES_REMEMBERED, PRODUCER_IDS_PER_PARTITION_MAX
from odradek.foundation.transaction_errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from odradek.storage.open_transactions import CompletedTransaction, OngoingTransaction, OpenTransactions
from odradek.storage.producer_rules import ProducerRules
from odradek.storage.producer_snapshots import SnapshotDamagedError, SnapshotEntry, SnapshotFiles
from odradek.storage.sequences import AppendedBatch, check_gap, duplicate_of
from odradek.storage.verification import VerificationToken, VerificationTokens
from odradek.wire.records.batch import SEQUENCE_MAX, TRANSACTIONAL_FLAG, BatchHeader, BatchView
from odradek.wire.records.control import Marker, parse_marker

logger = logging.getLogger(__name__)

STRICT_MARKERS_SINCE: Final = 2
"""The version of transactions from which on a marker's epoch is above that of the transaction's data."""

# A named tuple's own constructor takes three times as long, for every batch.
_new_tuple = tuple.__new__


class _Producer:
    """The state of one producer id."""

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
        rules: ProducerRules | None = None,
        producers_max: int = PRODUCER_IDS_PER_PARTITION_MAX,
    ) -> None:
        self.topic_partition = topic_partition
        self.files = files
        self.rules = rules or ProducerRules()
        self._producers_max = producers_max
        self._producers: dict[int, _Producer] = {}
        self.transactions = OpenTransactions()
        self.verifications = VerificationTokens()
        self._snapshot_offset = -1

    def __len__(self) -> int:
        return len(self._producers)

    # --- produced batches --------------------------------------------------------------------------------------------

    def check(
        self, header: BatchHeader, *, is_client: bool = True, token: VerificationToken | None = None
    ) -> AppendedBatch | None:
        """Whether a batch with a producer id may be written: None for yes, the old batch for a duplicate.

        Without `is_client` the sequence is not checked: the broker's own writes have no sequence numbers. `token` is
        from before the transaction's verification. Raises OutOfOrderSequence, InvalidProducerEpoch, InvalidTxnState.
        """
        _, _, _, _, _, attributes, _, _, _, producer_id, epoch, sequence, _ = header
        producer = self._producers.get(producer_id)
        is_transactional = attributes & TRANSACTIONAL_FLAG
        if producer is None:
            if is_transactional:
                self._check_verified(header, token, is_client=is_client, is_known=False)
            return None
        if epoch < producer.epoch:
            raise self._old_epoch(producer_id, epoch, producer)
        batches = producer.batches
        is_next = epoch == producer.epoch and sequence == (
            (batches[-1].last_sequence + 1) & SEQUENCE_MAX if batches else 0
        )
        if is_client and not is_next and epoch == producer.epoch:
            duplicate = duplicate_of(header, batches)
            if duplicate is not None:
                return duplicate
        if is_transactional:
            if producer.transaction_first_offset < 0 or epoch != producer.epoch:
                self._check_verified(header, token, is_client=is_client, is_known=True)
        elif producer.transaction_first_offset >= 0:
            raise InvalidTxnState(
                f"producer {producer_id} has a transaction open on {self.topic_partition} since offset"
                f" {producer.transaction_first_offset} and sent a batch outside of it"
            )
        if is_client and not is_next:
            check_gap(header, epoch=producer.epoch, batches=batches, topic_partition=self.topic_partition)
        return None

    # --- verification ------------------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, producer_epoch: int, *, first_sequence: int, adds_partition: bool, now_ms: int
    ) -> VerificationToken | None:
        """The token that `check` needs once the coordinator has agreed; None where no question is needed.

        That is when the producer has a transaction open here in this epoch.
        """
        producer = self._producers.get(producer_id)
        if (
            producer is not None
            and producer.transaction_first_offset >= 0
            and producer.epoch == producer_epoch
        ):
            return None
        return self.verifications.begin(
            producer_id,
            producer_epoch,
            first_sequence=first_sequence,
            adds_partition=adds_partition,
            now_ms=now_ms,
        )

    def _check_verified(
        self, header: BatchHeader, token: VerificationToken | None, *, is_client: bool, is_known: bool
    ) -> None:
        """Raises InvalidTxnState unless the token is still valid, OutOfOrderSequence for what may not come first."""
        standing = self.verifications.get(header.producer_id, header.producer_epoch)
        if self.rules.must_verify and (standing is None or standing is not token):
            raise InvalidTxnState(
                f"producer {header.producer_id} (epoch {header.producer_epoch}) has no transaction on"
                f" {self.topic_partition} that its coordinator has confirmed; it may have ended since"
            )
        if standing is None or not is_client:
            return
        sequence = header.base_sequence
        if sequence > standing.lowest_sequence or (
            sequence != 0 and standing.adds_partition and not is_known
        ):
            raise OutOfOrderSequence(
                f"producer {header.producer_id} (epoch {header.producer_epoch}) begins a transaction on"
                f" {self.topic_partition} with the sequence number {sequence}; an earlier batch is missing"
            )

    # --- data that was written ---------------------------------------------------------------------------------------

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
            started_ms = timestamp_ms if 0 < timestamp_ms < now_ms else now_ms
            self.transactions.begin(first_offset, producer_id, started_ms=started_ms)
        if self.verifications.standing:
            self.verifications.data_written(producer_id)

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """The sequence number with which the producer continues in this epoch; None when nothing of it is known."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch != producer.epoch or not producer.batches:
            return 0
        return (producer.batches[-1].last_sequence + 1) & SEQUENCE_MAX

    # --- what a snapshot does not have -------------------------------------------------------------------------------

    def find_unremembered_end(self, header: BatchHeader) -> int | None:
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

    def check_marker(self, marker: Marker, *, transaction_version: int = 0) -> bool:
        """Whether a marker is to be written; False for one that has come before, whose first one counts.

        `transaction_version` is the coordinator's, 0 where the request does not say. From version 2 on an equal epoch
        is that of the next transaction, which a late repetition must not end (KAFKA-19446). A repetition that finds
        nothing open is no error: its coordinator has not learned of its success (KAFKA-19999). Raises
        InvalidProducerEpoch, TransactionCoordinatorFenced.
        """
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return True
        if marker.producer_epoch < producer.epoch:
            raise self._old_epoch(marker.producer_id, marker.producer_epoch, producer)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"the marker of producer {marker.producer_id} for {self.topic_partition} is of coordinator"
                f" epoch {marker.coordinator_epoch}; {producer.coordinator_epoch} has written since"
            )
        if marker.producer_epoch > producer.epoch:
            return True
        if producer.transaction_first_offset < 0:
            self.verifications.marker_seen(marker.producer_id, marker.producer_epoch)
            return marker.coordinator_epoch > producer.coordinator_epoch
        if transaction_version >= STRICT_MARKERS_SINCE:
            raise InvalidProducerEpoch(
                f"the marker of producer {marker.producer_id} for {self.topic_partition} has the epoch"
                f" {marker.producer_epoch} of the transaction that is open there, and ends the one before it"
            )
        return True

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
        if self.verifications.standing:
            self.verifications.marker_seen(marker.producer_id, marker.producer_epoch)
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        producer.transaction_first_offset = -1
        completed = CompletedTransaction(marker.producer_id, first_offset, offset, not marker.is_commit)
        self.transactions.end(completed)
        return completed

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
        """Forget producers without an open transaction that were silent for producer.id.expiration.ms; how many."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset < 0
            and now_ms - producer.last_seen_ms >= self.rules.expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.expire(now_ms=now_ms, expiration_ms=self.rules.expiration_ms)
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
        self.transactions.clear()
        self.verifications.clear()
        self._snapshot_offset = -1

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def take_snapshot(self, offset: int) -> bool:
        """Write what is known now as the state below `offset`, the log's end; not twice for one offset.

        Whether one was written, not yet synced. Raises OSError.
        """
        if self.files is None or offset <= self._snapshot_offset:
            return False
        self.files.write(offset, self.entries())
        self._snapshot_offset = offset
        return True

    def reload(
        self,
        *,
        log_start_offset: int,
        log_end_offset: int,
        now_ms: int,
        snapshots: Collection[int] | None = None,
        snapshot_offset_max: int | None = None,
    ) -> int:
        """Forget everything and load the newest usable snapshot of a log that spans these offsets.

        None above `snapshot_offset_max` is loaded, for a caller that has to see the batches from there on.
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
            if snapshot_offset_max is not None and offset > snapshot_offset_max:
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
            if not is_open and now_ms - entry.timestamp_ms >= self.rules.expiration_ms:
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
        self.transactions.restore(
            OngoingTransaction(producer.transaction_first_offset, producer_id, producer.timestamp_ms)
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset >= 0
        )

    def _old_epoch(self, producer_id: int, epoch: int, producer: _Producer) -> InvalidProducerEpoch:
        return InvalidProducerEpoch(
            f"producer {producer_id} wrote to {self.topic_partition} with epoch {epoch}; {producer.epoch}"
            " has been seen, so a newer instance of it took over"
        )
