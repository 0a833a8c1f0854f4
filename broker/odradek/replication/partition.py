"""One partition that this broker leads: appends, reads up to the high watermark, and who waits for it.

With one replica the whole in-sync set holds a record once the leader's log does, so the high watermark is
the log's end after every append, or after the flush that flush.messages asks for (`commits`).
Followers, and with them a high watermark that lags, come with replication between brokers.

Appends and reads may raise what the log raises; a partition whose log directory failed raises
KafkaStorageError.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.cluster.topic_names import is_internal_topic
from odradek.foundation.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.log.files import FileSlice
from odradek.log.log import AppendResult, Log, Origin
from odradek.replication.commits import Commits
from odradek.replication.flushing import Flusher
from odradek.replication.purgatory import WaitingFetch


class PartitionRead(NamedTuple):
    """What a reader got: the records (None when there are none yet) and the offsets as they were then."""

    slice: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class Partition:
    """A partition led here. Its log's bytes belong to the log, its high watermark to this object."""

    __slots__ = (
        "_commits",
        "_flusher",
        "append_failures",
        "batches_in",
        "bytes_in",
        "bytes_out",
        "gone",
        "high_watermark",
        "in_sync_replicas",
        "is_internal",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "records_in",
        "replicas",
        "topic_id",
        "topic_partition",
        "waiting",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log,
        *,
        leader_epoch: int,
        replicas: tuple[int, ...],
        in_sync_replicas: tuple[int, ...],
        min_insync_replicas: int,
        flusher: Flusher,
    ) -> None:
        self._flusher = flusher
        # What waits for a flush, with flush.messages only.
        self._commits: Commits | None = None
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_internal = is_internal_topic(topic_partition.topic)
        self.log = log
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.in_sync_replicas = in_sync_replicas
        self.min_insync_replicas = min_insync_replicas
        self.high_watermark: int = log.log_end_offset
        self.waiting: dict[WaitingFetch, None] = {}
        self.gone: Exception | None = None
        self.append_failures = 0
        self.batches_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0

    @property
    def last_stable_offset(self) -> int:
        """All below belongs to no open transaction and is held by the whole in-sync set."""
        offset: int = self.log.producers.last_stable_offset(high_watermark=self.high_watermark)
        return offset

    def append_as_leader(
        self, records: memoryview | bytes, *, required_acks: int, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Append one client's batches and move the high watermark; wakes the fetches that wait for it.

        Where flush.messages asks for a flush first, the high watermark follows it: as long as it is not above the
        last offset, `committed` is to be waited for before the append is answered.

        Raises NotEnoughReplicas for acks=all when fewer than min.insync.replicas are in sync (never more
        than there are replicas, as Kafka counts), KafkaStorageError, and whatever `Log.append` raises.
        """
        if self.gone is not None:
            raise self.gone
        if required_acks == -1 and len(self.in_sync_replicas) < self.min_insync_replicas:
            self._check_in_sync()
        result = self.log.append(records, leader_epoch=self.leader_epoch, origin=origin)
        if not result.is_duplicate:
            size_bytes = result.size_bytes
            self.bytes_in += size_bytes
            self.batches_in += 1
            self.records_in += result.record_count
            if self.log.must_flush:
                self._known_commits().add(result.last_offset + 1, size_bytes)
                return result
            self.high_watermark = result.last_offset + 1
            if self.waiting:
                for fetch in tuple(self.waiting):
                    fetch.advanced(size_bytes)
        return result

    def _known_commits(self) -> Commits:
        if self._commits is None:
            self._commits = Commits(self.log, flusher=self._flusher, on_commit=self._committed)
        return self._commits

    def _committed(self, end_offset: int, size_bytes: int) -> None:
        self.high_watermark = max(self.high_watermark, end_offset)
        for fetch in tuple(self.waiting):
            fetch.advanced(size_bytes)

    async def committed(self, last_offset: int) -> None:
        """Returns once the record at `last_offset`, which was appended, is committed.

        Raises KafkaStorageError when the disk failed, UnknownTopicOrPartition when the topic was deleted meanwhile.
        """
        if self.high_watermark <= last_offset:
            try:
                await self._known_commits().wait(last_offset + 1)
            except KafkaStorageError as failure:
                raise self.gone or failure from failure

    def _check_in_sync(self) -> None:
        needed = min(self.min_insync_replicas, len(self.replicas))
        if len(self.in_sync_replicas) < needed:
            raise NotEnoughReplicas(
                f"{self.topic_partition} has {len(self.in_sync_replicas)} replicas in sync and needs "
                f"{needed} for acks=all; nothing was written. Wait for a replica to catch up or lower "
                "min.insync.replicas."
            )

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raise FencedLeaderEpoch or UnknownLeaderEpoch unless the client's epoch is this one, or -1."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(
                f"{self.topic_partition} is in leader epoch {self.leader_epoch}, the request in "
                f"{current_leader_epoch}; refresh the metadata."
            )
        raise UnknownLeaderEpoch(
            f"{self.topic_partition} is in leader epoch {self.leader_epoch}, the request already in "
            f"{current_leader_epoch}; try again."
        )

    def read(
        self,
        fetch_offset: int,
        bytes_max: int,
        *,
        at_least_one_batch: bool,
        committed_only: bool,
        current_leader_epoch: int = -1,
    ) -> PartitionRead:
        """Whole batches from the one that holds `fetch_offset`, below the high watermark (or last stable
        offset).

        Raises OffsetOutOfRange below the log's start or above its end, FencedLeaderEpoch, UnknownLeaderEpoch,
        KafkaStorageError.
        """
        if self.gone is not None:
            raise self.gone
        if current_leader_epoch != -1:
            self.check_leader_epoch(current_leader_epoch)
        log = self.log
        high_watermark = self.high_watermark
        last_stable_offset = self.last_stable_offset
        log_start_offset = log.log_start_offset
        limit = last_stable_offset if committed_only else high_watermark
        if log_start_offset <= fetch_offset < limit:
            records = None
            if bytes_max > 0 or at_least_one_batch:
                records = log.read(
                    fetch_offset,
                    bytes_max=bytes_max,
                    offset_limit=limit,
                    at_least_one_batch=at_least_one_batch,
                )
                self.bytes_out += records.size
            return PartitionRead(records, high_watermark, last_stable_offset, log_start_offset)
        if not log_start_offset <= fetch_offset <= log.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition} holds offsets {log_start_offset} to {log.log_end_offset}; "
                f"{fetch_offset} is outside."
            )
        return PartitionRead(None, high_watermark, last_stable_offset, log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch not after `epoch`; both -1 when there is none. Raises as
        `read`.
        """
        if self.gone is not None:
            raise self.gone
        found: tuple[int, int] = self.log.end_offset_for_epoch(epoch)
        return found

    def aborted_transactions(self, fetch_offset: int, records: FileSlice) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that reach into `records`, read from
        `fetch_offset`.
        """
        del records  # What is aborted above them is left out by its reader: markers tell it in order.
        aborted = self.log.aborted_transactions(fetch_offset, self.last_stable_offset)
        return [(transaction.producer_id, transaction.first_offset) for transaction in aborted]

    def apply_retention(self) -> int:
        """Delete the segments that are past retention and below the high watermark; how many."""
        count: int = self.log.delete_old_segments(self.high_watermark)
        return count

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start up to `before_offset` (-1: the high watermark); returns the new start.

        Raises OffsetOutOfRange above the high watermark or for another negative number, PolicyViolation for a
        log that is only compacted, KafkaStorageError.
        """
        if self.gone is not None:
            raise self.gone
        config = self.log.config
        if config.cleanup_compact and not config.cleanup_delete:
            raise PolicyViolation(
                f"{self.topic_partition} has cleanup.policy=compact, under which only newer records replace older "
                "ones; add delete to the policy to delete records."
            )
        target = self.high_watermark if before_offset == -1 else before_offset
        if target < 0 or target > self.high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic_partition} can delete records below its high watermark {self.high_watermark}, "
                f"not below {before_offset}."
            )
        self.log.advance_log_start(target)
        start: int = self.log.log_start_offset
        return start

    def set_leadership(
        self, *, leader_epoch: int, replicas: tuple[int, ...], in_sync_replicas: tuple[int, ...]
    ) -> None:
        """Follow the cluster's image; a new epoch wakes whoever waits, who may have to look for another
        leader.
        """
        self.replicas = replicas
        self.in_sync_replicas = in_sync_replicas
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self._disturb()

    def mark_deleted(self) -> None:
        """The topic was deleted: every later call raises UnknownTopicOrPartition."""
        self.gone = UnknownTopicOrPartition(f"{self.topic_partition} was deleted.")
        self._disturb()

    def mark_offline(self) -> None:
        """The log directory failed: every later call raises KafkaStorageError until the broker restarts."""
        self.gone = KafkaStorageError(
            f"The log directory of {self.topic_partition} failed; the partition is offline until the disk is "
            "repaired and the broker restarted."
        )
        self._disturb()

    def _disturb(self) -> None:
        for fetch in tuple(self.waiting):
            fetch.disturbed()
