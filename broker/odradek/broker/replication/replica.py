"""This broker's replica of one partition: its log, its high watermark, and the requests that wait for either.

The replica also holds what the controller says of the partition, and why clients may not write here. The roles of a
broker work on it: `leader.Leader`, `follower.Follower`, and `partition_reader.PartitionReader` for both.

What it leaves out: changes of role (`partition`).
"""

from __future__ import annotations

from odradek.broker.replication.acknowledgements import Waiters
from odradek.broker.replication.context import ReplicaContext
from odradek.broker.replication.purgatory import PartitionListener, Watch
from odradek.broker.replication.rejected_batches import RejectedBatches
from odradek.foundation.errors import FencedLeaderEpoch, UnknownLeaderEpoch
from odradek.foundation.ids import NO_LEADER_EPOCH, TopicId, TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import NO_LEADER, PartitionImage
from odradek.storage.log import Log


class ReplicaStart(NamedTuple):
    """The first state of a replica, before the cluster's image gives its broker a role."""

    topic_partition: TopicPartition
    topic_id: TopicId
    log: Log
    context: ReplicaContext
    high_watermark: int
    """The end of the records known to be committed; an offset outside the log is moved to the log's nearer end."""
    min_insync_replicas: int
    is_unclean_election_allowed: bool = False


class Replica:
    """The log's bytes belong to the log, its high watermark to this object."""

    __slots__ = (
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
        "is_throttled_as_follower",
        "is_throttled_as_leader",
        "is_unclean_election_allowed",
        "leader_epoch",
        "leader_id",
        "log",
        "log_end_watch",
        "min_insync_replicas",
        "partition_epoch",
        "pending_deletes",
        "pending_produces",
        "records_in",
        "refusal",
        "rejected_batches",
        "replicas",
        "topic_id",
        "topic_partition",
        "uncommitted_bytes",
        "waiting",
    )

    def __init__(self, start: ReplicaStart) -> None:
        log = start.log
        self.topic_partition = start.topic_partition
        self.topic_id = start.topic_id
        self.log = log
        self.context = start.context
        self.leader_id = NO_LEADER
        self.leader_epoch: int = NO_LEADER_EPOCH
        self.partition_epoch = -1
        """Which of the controller's states of the partition the replica follows."""
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        """Those of `replicas` that a reassignment adds."""
        self.in_sync_replicas: tuple[int, ...] = ()
        self.eligible_replicas: tuple[int, ...] = ()
        """The brokers that may be elected besides the in-sync set (KIP-966). It may name more until the image comes."""
        self.is_unclean_election_allowed = start.is_unclean_election_allowed
        """unclean.leader.election.enable: whether any replica may be elected."""
        self.min_insync_replicas = start.min_insync_replicas
        self.is_throttled_as_leader = False
        """Whether bytes for followers count for the broker's throttle, and may wait for it (KIP-73)."""
        self.is_throttled_as_follower = False
        self.high_watermark: int = min(max(start.high_watermark, log.log_start_offset), log.log_end_offset)
        self.uncommitted_bytes = 0
        """Bytes that were appended above the high watermark."""
        self.waiting: dict[PartitionListener, None] = {}
        """Clients' fetches that wait for the high watermark."""
        self.log_end_watch = Watch()
        """Followers' fetches that wait for the log's end, and the parts of their sessions that have nothing new."""
        self.pending_produces = Waiters()
        """Produces that wait for the high watermark."""
        self.pending_deletes = Waiters()
        """Deletions that wait for the low watermark."""
        self.rejected_batches: RejectedBatches | None = None
        """Batches that have to come again before those after them are accepted; None nearly always."""
        self.gone: Exception | None = None
        """Why this broker does not have the partition any more."""
        self.refusal: Exception | None = None
        """Why clients may not write here; None while this broker leads."""
        self.append_failures = 0
        self.batches_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0

    @property
    def last_stable_offset(self) -> int:
        """The whole in-sync set holds all below, and no open transaction has records there.

        It is never below the log's start, where records of an open transaction may have been deleted.
        """
        log = self.log
        transactions = log.producers.transactions
        offset: int = self.high_watermark
        if transactions.may_hold_back:
            offset = transactions.last_stable_offset(high_watermark=offset)
        log_start_offset: int = log.offsets.log_start_offset
        return offset if offset > log_start_offset else log_start_offset

    @property
    def is_follower(self) -> bool:
        """Whether another broker leads, whose log this one has to follow."""
        return self.gone is None and self.leader_id not in (NO_LEADER, self.context.broker_id)

    def follow(self, state: PartitionImage) -> None:
        """Take over the controller's state of the partition."""
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.adding_replicas = state.adding
        self.in_sync_replicas = state.isr
        self.eligible_replicas = state.elr
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch

    # --- checks ------------------------------------------------------------------------------------------------------

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads, in the client's epoch if it names one.

        Raises FencedLeaderEpoch, UnknownLeaderEpoch, NotLeaderOrFollower, UnknownTopicOrPartition, KafkaStorageError.
        """
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        if current_leader_epoch != -1:
            self.check_leader_epoch(current_leader_epoch)
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)

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

    # --- watermarks --------------------------------------------------------------------------------------------------

    def advance_high_watermark(self, end_offset: int) -> None:
        """Let readers see all below `end_offset`, which is above the high watermark."""
        size_bytes = self.uncommitted_bytes
        log_end_offset = self.log.offsets.log_end_offset
        if end_offset < log_end_offset:
            # The bytes below an offset are not known: all records count as equally long.
            before = self.high_watermark
            size_bytes = size_bytes * (end_offset - before) // (log_end_offset - before)
        # At least one byte, also for records that came before bytes were counted: there is something new.
        size_bytes = max(size_bytes, 1)
        self.uncommitted_bytes -= min(size_bytes, self.uncommitted_bytes)
        self.high_watermark = end_offset
        for fetch in tuple(self.waiting):
            fetch.became_readable(size_bytes)
        if self.pending_produces:
            self.pending_produces.release(end_offset)

    def advance_log_start(self, offset: int) -> bool:
        """Delete the records below `offset`; whether the log's start moved. Raises as `Log.advance_log_start`."""
        before = self.log.log_start_offset
        self.log.advance_log_start(offset)
        return self._has_log_start_moved(before)

    def apply_retention(self, chosen_offset: int | None = None) -> tuple[int, bool]:
        """Delete the segments that are past retention, or that a policy chose, and below the high watermark.

        Returns how many there were, and whether the log's start moved.
        """
        before = self.log.log_start_offset
        count = self.log.delete_old_segments(self.high_watermark, chosen_offset=chosen_offset)
        return count, self._has_log_start_moved(before)

    def _has_log_start_moved(self, before: int) -> bool:
        if self.log.log_start_offset == before:
            return False
        self.notify_followers()
        return True

    # --- requests that wait ------------------------------------------------------------------------------------------

    def notify_followers(self) -> None:
        """Notify followers' sessions that their next fetch has something to learn here."""
        for listener in tuple(self.log_end_watch.waiting):
            listener.state_changed()

    def wake_followers(self) -> None:
        """Answer followers' fetches at once."""
        for fetch in tuple(self.log_end_watch.waiting):
            fetch.wake()

    def wake_readers(self) -> None:
        """Answer clients' fetches at once."""
        for fetch in tuple(self.waiting):
            fetch.wake()

    def fail_waiting(self, failure: Exception) -> None:
        """Answer all that wait here: they have to ask another broker."""
        self.wake_readers()
        self.wake_followers()
        self.pending_produces.fail(failure)
        self.pending_deletes.fail(failure)

    @property
    def has_waiting_clients(self) -> bool:
        return bool(self.waiting or self.pending_produces or self.pending_deletes)

    def note_rejected(self, records: memoryview | bytes, failure: Exception) -> None:
        """Remember that these records were refused, so that none after them are accepted before they come again."""
        if self.gone is not None:
            return
        if self.rejected_batches is None:
            self.rejected_batches = RejectedBatches(self.context.now)
        self.rejected_batches.note(records, failure)

    def check_order(self, records: memoryview | bytes) -> None:
        """Raise the error of a batch that was refused, if these records have to come after it."""
        if self.rejected_batches is not None:
            out_of_order = self.rejected_batches.find_skipped(records, self.log.producers)
            if out_of_order is not None:
                raise out_of_order

    def note_appended(self, records: memoryview | bytes) -> None:
        """These records were appended: what was refused of them is forgotten."""
        if self.rejected_batches is not None:
            self.rejected_batches.note_append(records)
            if not self.rejected_batches:
                self.rejected_batches = None
