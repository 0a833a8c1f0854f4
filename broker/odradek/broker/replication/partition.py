"""One partition on this broker, and its role: this broker leads it, follows its leader, or neither.

The cluster's image decides the role. `Partition.leader` is there while this broker leads and `Partition.follower` while
another broker does. Both work on the same `Replica`, which has the log and the watermarks. Without a leader
`Replica.refusal` says why: the partition is gone, its disk failed, or another broker leads it.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.replication.follower import Follower
from odradek.broker.replication.leader import Leader
from odradek.broker.replication.partition_reader import PartitionReader
from odradek.broker.replication.replica import Replica, ReplicaStart
from odradek.foundation.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicOrPartition
from odradek.foundation.ids import NO_LEADER_EPOCH
from odradek.metadata.image.image import NO_LEADER, PartitionImage
from odradek.metadata.image.topic_names import is_internal_topic


class PartitionCallbacks:
    """Functions that a broker's partitions call; one object for all. Where one broker is the cluster none is set."""

    __slots__ = ("in_sync_proposed", "log_start_moved", "role_changed")

    def __init__(self) -> None:
        self.in_sync_proposed: Callable[[Partition], None] = _ignore
        """The leader has a new proposal for the in-sync set."""
        self.log_start_moved: Callable[[Partition], None] = _ignore
        """The log starts later than before."""
        self.role_changed: Callable[[Partition], None] = _ignore
        """The partition has another leader, another epoch, or is gone."""


class Partition:
    """A partition that this broker hosts; `take_role` makes it what the cluster's image says."""

    __slots__ = (
        "_callbacks",
        "_last_leader",
        "follower",
        "is_internal",
        "leader",
        "led_since_epoch",
        "log",
        "reader",
        "replica",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, start: ReplicaStart, callbacks: PartitionCallbacks) -> None:
        self.topic_partition = start.topic_partition
        self.topic_id = start.topic_id
        self.is_internal = is_internal_topic(start.topic_partition.topic)
        self.log = start.log
        self.replica = Replica(start)
        self.reader = PartitionReader(self.replica)
        self.leader: Leader | None = None
        """While this broker leads."""
        self.follower: Follower | None = None
        """While another broker leads, whose log this one has to follow."""
        self.led_since_epoch: int = NO_LEADER_EPOCH
        """The leader epoch in which this broker last began to lead; it may lead on through later ones."""
        self._callbacks = callbacks
        # The newest leader, also before its epoch is written and after it ended: appends may still wait for a flush.
        self._last_leader: Leader | None = None
        self.replica.refusal = NotLeaderOrFollower(
            f"{self.topic_partition} has no leader yet; refresh the metadata."
        )

    @property
    def is_leader(self) -> bool:
        """Whether clients may write here."""
        return self.leader is not None

    @property
    def leader_id(self) -> int:
        """The broker that leads, or NO_LEADER."""
        return self.replica.leader_id

    @property
    def leader_epoch(self) -> int:
        return self.replica.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.replica.last_stable_offset

    @property
    def gone(self) -> Exception | None:
        """Why this broker does not have the partition any more."""
        return self.replica.gone

    # --- requests ----------------------------------------------------------------------------------------------------

    def require_leader(self, current_leader_epoch: int = -1) -> Leader:
        """The leader. Raises as `Replica.require_leader`."""
        replica = self.replica
        # What nearly every request finds, and each asks for all of its partitions.
        if replica.refusal is not None or current_leader_epoch != replica.leader_epoch:
            replica.require_leader(current_leader_epoch)
        assert self.leader is not None, "without a leader there is a refusal"
        return self.leader

    def reject(self, records: memoryview | bytes) -> Exception:
        """The error to raise for records that came while this broker does not lead; they are remembered as refused."""
        refusal = self.replica.refusal
        assert refusal is not None, "a partition without a refusal has a leader"
        self.replica.note_rejected(records, refusal)
        return refusal.with_traceback(None)

    @property
    def has_followers(self) -> bool:
        """Whether other replicas have to hold what is appended here."""
        return len(self.replica.replicas) > 1

    def is_flush_due(self, last_offset: int) -> bool:
        """Whether the record at `last_offset` waits for a flush that flush.messages asks for."""
        return self._last_leader is not None and self._last_leader.is_flush_due(last_offset)

    async def wait_until_flushed(self, last_offset: int) -> None:
        """As `Leader.wait_until_flushed`, also after this broker has ceased to lead."""
        if self._last_leader is not None:
            await self._last_leader.wait_until_flushed(last_offset)

    async def wait_until_committed(self, last_offset: int, *, seconds_max: float) -> None:
        """As `Leader.wait_until_committed`, also after this broker has ceased to lead."""
        if self.replica.high_watermark <= last_offset:
            await self.require_leader().wait_until_committed(last_offset, seconds_max=seconds_max)

    def require_in_sync(self, count: int) -> None:
        """Set min.insync.replicas. With a smaller one the high watermark may move at once: it may have waited for
        replicas that are not needed any more.
        """
        self.replica.min_insync_replicas = count
        if self.leader is not None:
            self.leader.advance_high_watermark()

    # --- the log's start ---------------------------------------------------------------------------------------------

    def apply_retention(self, chosen_offset: int | None = None) -> int:
        """Delete the segments below the high watermark that are past retention, or that a policy chose; how many."""
        count, has_moved = self.replica.apply_retention(chosen_offset)
        if has_moved:
            self._callbacks.log_start_moved(self)
        return count

    # --- roles -------------------------------------------------------------------------------------------------------

    def take_role(self, state: PartitionImage) -> None:
        """Follow the cluster's image; a state older than the one followed is ignored.

        A new epoch answers the requests that wait, so that their clients look for another leader. Produces wait on
        where this broker leads on. Raises KafkaStorageError when the epoch cannot be written: the partition has no
        leader then, until the same state is taken again with success.
        """
        replica = self.replica
        if (state.leader_epoch, state.partition_epoch) < (replica.leader_epoch, replica.partition_epoch):
            return
        if replica.gone is not None:
            return
        is_new = (state.leader, state.leader_epoch) != (replica.leader_id, replica.leader_epoch)
        leads_on = self.leader is not None and state.leader == replica.leader_id
        settles_proposal = state.partition_epoch != replica.partition_epoch
        replica.follow(state)
        if not replica.is_follower:
            self.follower = None
        elif self.follower is None:
            self.follower = Follower(replica)
        try:
            if state.leader == replica.context.broker_id:
                self._lead(is_new=is_new, leads_on=leads_on, settles_proposal=settles_proposal)
            elif is_new:
                self._stop_leading()
        except KafkaStorageError as failure:
            replica.fail_waiting(failure)
            raise
        finally:
            # Also where it cannot lead: the leader that it followed until now is followed no more.
            if is_new:
                self._callbacks.role_changed(self)

    def _lead(self, *, is_new: bool, leads_on: bool, settles_proposal: bool) -> None:
        replica = self.replica
        leader = self._last_leader
        if is_new:
            self._refuse(self._not_leading())
            if leads_on and leader is not None:
                leader.begin_epoch()
                replica.wake_readers()
                replica.wake_followers()
            else:
                replica.fail_waiting(self._not_leading())
                self.led_since_epoch = replica.leader_epoch
                # Records of the leader before count as flushed, as all that was appended from it does.
                replica.uncommitted_bytes = 0
                leader = self._last_leader = Leader(replica, on_proposal=self._report_proposal)
        assert leader is not None, "a leader epoch begins as a new one"
        leader.update_replicas(settles_proposal=settles_proposal)
        replica.refusal = None
        self.leader = leader
        replica.notify_followers()
        leader.fail_without_enough_replicas()
        leader.advance_high_watermark()

    def _stop_leading(self) -> None:
        if self._last_leader is not None:
            self._last_leader.end()
        failure = self._not_leading()
        self._refuse(failure)
        self.replica.fail_waiting(failure)

    def _refuse(self, why: Exception) -> None:
        self.replica.refusal = why
        self.leader = None

    def _not_leading(self) -> NotLeaderOrFollower:
        leader_id = self.replica.leader_id
        if leader_id == NO_LEADER:
            return NotLeaderOrFollower(f"{self.topic_partition} has no leader now; refresh the metadata.")
        return NotLeaderOrFollower(
            f"{self.topic_partition} is led by broker {leader_id}, not by {self.replica.context.broker_id}; refresh "
            "the metadata."
        )

    def _report_proposal(self) -> None:
        self._callbacks.in_sync_proposed(self)

    # --- the end -----------------------------------------------------------------------------------------------------

    def mark_deleted(self) -> None:
        """The topic was deleted: every later call raises UnknownTopicOrPartition."""
        self._mark_gone(UnknownTopicOrPartition(f"{self.topic_partition} was deleted."))

    def mark_removed(self) -> None:
        """The replica was assigned to other brokers: every later call raises NotLeaderOrFollower."""
        self._mark_gone(
            NotLeaderOrFollower(f"{self.topic_partition} is no longer hosted here; refresh the metadata.")
        )

    def mark_offline(self, reason: str) -> None:
        """The log directory failed: every later call raises KafkaStorageError until the broker restarts."""
        self._mark_gone(
            KafkaStorageError(
                f"The log directory of {self.topic_partition}, {self.log.parent_directory}, failed ({reason}); the "
                "partition is offline until the disk is repaired and the broker restarted."
            )
        )

    def _mark_gone(self, why: Exception) -> None:
        self.replica.gone = why
        self.follower = None
        self._refuse(why)
        self.replica.fail_waiting(why)


def _ignore(partition: Partition) -> None:
    """Where one broker is the whole cluster, there are no followers and no in-sync sets to decide."""
