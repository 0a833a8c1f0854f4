"""One replica of a partition on this broker, whatever its role: what readers may see of it.

Appending and leading are `partition`'s, following is `follower`'s, which extend this. `refusal` says in one place
why clients may not write here: the partition is gone, its disk failed, or another broker leads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from odradek.cluster.image import NO_LEADER
from odradek.cluster.topic_names import is_internal_topic
from odradek.foundation.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import NO_LEADER_EPOCH, TopicId, TopicPartition
from odradek.log.files import FileSlice
from odradek.log.log import Log
from odradek.replication.acknowledgements import Waiters
from odradek.replication.context import ReplicaContext
from odradek.replication.purgatory import Listener


class PartitionRead(NamedTuple):
    """What a reader got: the records (None when there are none yet) and the offsets as they were then."""

    slice: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStart:
    """What a replica begins with, before the cluster's image gives it a role."""

    topic_partition: TopicPartition
    topic_id: TopicId
    log: Log
    context: ReplicaContext
    high_watermark: int
    """What this broker vouches for; one beyond the log's ends is moved to the nearer end."""
    min_insync_replicas: int
    is_unclean_election_allowed: bool = False


class Replica:
    """Its log's bytes belong to the log, its high watermark to this object."""

    __slots__ = (
        "_unshown_bytes",
        "adding_replicas",
        "append_failures",
        "batches_in",
        "bytes_in",
        "bytes_out",
        "context",
        "eligible_replicas",
        "gone",
        "high_watermark",
        "in_sync_replicas",
        "is_internal",
        "is_throttled_as_follower",
        "is_throttled_as_leader",
        "is_unclean_election_allowed",
        "leader",
        "leader_epoch",
        "led_since_epoch",
        "log",
        "min_insync_replicas",
        "partition_epoch",
        "records_in",
        "refusal",
        "replicas",
        "topic_id",
        "topic_partition",
        "unacknowledged",
        "undeleted",
        "waiting",
    )

    def __init__(self, start: ReplicaStart) -> None:
        log = start.log
        self.topic_partition = start.topic_partition
        self.topic_id = start.topic_id
        self.is_internal = is_internal_topic(start.topic_partition.topic)
        self.log = log
        self.context = start.context
        self.leader = NO_LEADER
        self.leader_epoch: int = NO_LEADER_EPOCH
        self.led_since_epoch: int = NO_LEADER_EPOCH
        """The leader epoch in which this broker began to lead, last; it may lead on through later ones."""
        self.partition_epoch = -1
        """Which of the controller's states of the partition this follows."""
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        """Those of `replicas` that a reassignment brings."""
        self.in_sync_replicas: tuple[int, ...] = ()
        self.eligible_replicas: tuple[int, ...] = ()
        """Those that may be elected besides the in-sync set (KIP-966), or more where the image has not told yet."""
        self.is_unclean_election_allowed = start.is_unclean_election_allowed
        """unclean.leader.election.enable: whether any replica may be elected."""
        self.min_insync_replicas = start.min_insync_replicas
        self.is_throttled_as_leader = False
        """Whether what followers are fed from here counts for the broker's throttle, and may wait for it (KIP-73)."""
        self.is_throttled_as_follower = False
        self.high_watermark: int = min(max(start.high_watermark, log.log_start_offset), log.log_end_offset)
        self.waiting: dict[Listener, None] = {}
        """Clients' fetches that wait for the high watermark."""
        self.unacknowledged = Waiters()
        """Produces that wait for the high watermark."""
        self.undeleted = Waiters()
        """Deletions that wait for the low watermark."""
        self.gone: Exception | None = None
        self.refusal: Exception | None = None
        """Why clients may not write here; None for a leader."""
        self.append_failures = 0
        self.batches_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        # What was appended above the high watermark.
        self._unshown_bytes = 0

    @property
    def is_leader(self) -> bool:
        """Whether clients may write here."""
        return self.refusal is None

    @property
    def is_follower(self) -> bool:
        """Whether another broker leads, whose log this one has to follow."""
        return self.gone is None and self.leader not in (NO_LEADER, self.context.broker_id)

    @property
    def last_stable_offset(self) -> int:
        """All below belongs to no open transaction and is held by the whole in-sync set."""
        offset: int = self.log.producers.last_stable_offset(high_watermark=self.high_watermark)
        return offset

    # --- who may ask -------------------------------------------------------------------------------------------------

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads, in the client's epoch if it names one.

        FencedLeaderEpoch, UnknownLeaderEpoch, NotLeaderOrFollower, UnknownTopicOrPartition, KafkaStorageError.
        """
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        if current_leader_epoch != -1:
            self.check_leader_epoch(current_leader_epoch)
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)

    def require_confirmed(self) -> None:
        """For what clients are told by a leader: raise NotLeaderOrFollower where the registry is silent and another
        broker may lead by now. What followers ask is answered all the same: that confirms the leader.
        """
        if self.context.is_registry_silent and not self.is_confirmed:
            raise self.unconfirmed()

    def unconfirmed(self) -> NotLeaderOrFollower:
        """What a client is told by a leader that is not confirmed."""
        return NotLeaderOrFollower(
            f"The registry does not answer broker {self.context.broker_id}, and not every replica that may lead "
            f"{self.topic_partition} instead still follows it; try again."
        )

    @property
    def is_confirmed(self) -> bool:
        """Whether nobody else led a moment ago, as far as a leader can know without the registry."""
        raise NotImplementedError

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

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        fetch_offset: int,
        bytes_max: int,
        *,
        at_least_one_batch: bool,
        committed_only: bool,
        current_leader_epoch: int = -1,
        leader_only: bool = False,
    ) -> PartitionRead:
        """Whole batches from the one that holds `fetch_offset`, below the high watermark (or last stable
        offset).

        A follower serves readers too, unless they want the `leader_only`: consumers that know nothing of replicas
        (KIP-392). Raises OffsetOutOfRange below the log's start or above its end, if this broker can know that there is
        no such record (`require_certainty`), FencedLeaderEpoch, UnknownLeaderEpoch, NotLeaderOrFollower,
        KafkaStorageError.
        """
        if self.refusal is not None:
            self._require_readable(current_leader_epoch, leader_only=leader_only)
        elif current_leader_epoch != -1:
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
            self.require_certainty(fetch_offset)
            self._require_in_range(fetch_offset)
        return PartitionRead(None, high_watermark, last_stable_offset, log_start_offset)

    def require_certainty(self, offset: int) -> None:
        """Raise NotLeaderOrFollower when this broker cannot know whether `offset`, which it does not hold, exists.

        Clients that are told OFFSET_OUT_OF_RANGE begin anew at another place. A follower has what it has come to, and
        whoever was stopped or cut off for some time may lead no more. (Kafka says OFFSET_OUT_OF_RANGE in both cases,
        and clients that know that they read from a follower ask the leader then. Below a follower's start that is left
        to them: franz-go goes back to the leader for nothing else, and what retention takes it takes there as well.)
        """
        if self.refusal is not None:
            if offset > self.log.log_end_offset:
                raise NotLeaderOrFollower(
                    f"{self.topic_partition} has come to {self.log.log_end_offset} on the follower "
                    f"{self.context.broker_id}; whether there is {offset} its leader, broker {self.leader}, knows."
                )
        elif not self.context.is_sure():
            raise NotLeaderOrFollower(
                f"{self.topic_partition} has no {offset} on broker {self.context.broker_id}, which has to hear from "
                "the controller first whether it still leads; try again."
            )

    def _require_readable(self, current_leader_epoch: int, *, leader_only: bool) -> None:
        if leader_only or self.gone is not None or not self.is_follower:
            self.require_leader(current_leader_epoch)
        self.check_leader_epoch(current_leader_epoch)

    def _require_in_range(self, fetch_offset: int) -> None:
        log = self.log
        if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition} holds offsets {log.log_start_offset} to {log.log_end_offset}; "
                f"{fetch_offset} is outside."
            )

    def divergence(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Where a reader's log and this one part, as (epoch, end offset): it has to cut what it has there (KIP-595).

        None when this log has all that the reader has. `last_fetched_epoch` is the epoch of the record before
        `fetch_offset`. Raises OffsetOutOfRange when this log does not know.
        """
        epoch, end_offset = self.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRange(
                f"{self.topic_partition} knows no end of epoch {last_fetched_epoch}, in which the reader fetched last."
            )
        if fetch_offset < self.log.log_start_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition} starts at {self.log.log_start_offset}, after {fetch_offset}."
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch not after `epoch`; both -1 when there is none.

        A leader's own epoch begins where its log ends, also when nothing has been written in it. Raises
        UnknownTopicOrPartition, KafkaStorageError.
        """
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        log = self.log
        newest = log.epochs.latest_epoch
        if newest < epoch <= self.leader_epoch and self.refusal is None:
            known = newest if newest >= 0 and epoch < self.leader_epoch else epoch
            return known, log.log_end_offset
        found: tuple[int, int] = log.end_offset_for_epoch(epoch)
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
        before = self.log.log_start_offset
        count: int = self.log.delete_old_segments(self.high_watermark)
        if self.log.log_start_offset != before:
            self._log_start_moved()
        return count

    def advance_log_start(self, offset: int) -> None:
        """Give up the records below `offset`, unless the log starts there or later. Raises as `Log.advance_log_start`;
        nothing else is to call that, as whoever asks a leader, or is asked by a follower, has to hear of it.
        """
        before = self.log.log_start_offset
        self.log.advance_log_start(offset)
        if self.log.log_start_offset != before:
            self._log_start_moved()

    def _log_start_moved(self) -> None:
        self.context.log_start_moved(self)

    # --- the high watermark ------------------------------------------------------------------------------------------

    def _show(self, end_offset: int) -> None:
        """All below `end_offset`, which is above the high watermark, may be read from now on."""
        size_bytes = self._unshown_bytes
        log_end_offset = self.log.log_end_offset
        if end_offset < log_end_offset:
            # How many bytes lie below an offset is not known: each record is taken for as long as the others.
            before = self.high_watermark
            size_bytes = size_bytes * (end_offset - before) // (log_end_offset - before)
        # Also when records came before they were counted here: there is something new.
        size_bytes = max(size_bytes, 1)
        self._unshown_bytes -= min(size_bytes, self._unshown_bytes)
        self.high_watermark = end_offset
        for fetch in tuple(self.waiting):
            fetch.advanced(size_bytes)
        if self.unacknowledged:
            self.unacknowledged.release(end_offset)

    # --- the end -----------------------------------------------------------------------------------------------------

    def mark_deleted(self) -> None:
        """The topic was deleted: every later call raises UnknownTopicOrPartition."""
        self._mark_gone(UnknownTopicOrPartition(f"{self.topic_partition} was deleted."))

    def mark_removed(self) -> None:
        """The replica was assigned to other brokers: every later call raises NotLeaderOrFollower."""
        self._mark_gone(
            NotLeaderOrFollower(f"{self.topic_partition} is not kept here any more; refresh the metadata.")
        )

    def mark_offline(self, reason: str) -> None:
        """The log directory failed: every later call raises KafkaStorageError until the broker restarts."""
        self._mark_gone(
            KafkaStorageError(
                f"The log directory of {self.topic_partition}, {self.log.path_of_directory}, failed ({reason}); the "
                "partition is offline until the disk is repaired and the broker restarted."
            )
        )

    def _mark_gone(self, why: Exception) -> None:
        self.gone = self.refusal = why
        self._disturb(why)

    def _disturb(self, why: Exception) -> None:
        """Whoever waits has to look elsewhere."""
        self._wake_readers()
        self.unacknowledged.fail(why)
        self.undeleted.fail(why)

    def _wake_readers(self) -> None:
        for fetch in tuple(self.waiting):
            fetch.disturbed()
