"""One partition on this broker: what it does as a leader, and how it becomes leader, follower or neither.

With one replica the whole in-sync set holds a record once the leader's log does, so the high watermark is
the log's end after every append, or after the flush that flush.messages asks for (`commits`): that road is short.
With more it is the smallest end among those that count (`leader.Followers`), and moves when a follower fetches.

Appends and reads may raise what the log raises; a partition whose log directory failed raises
KafkaStorageError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from odradek.cluster.image import NO_LEADER, PartitionImage
from odradek.foundation.errors import (
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from odradek.foundation.words import count
from odradek.log.log import AppendResult, Origin
from odradek.replication.acknowledgements import Waiters
from odradek.replication.commits import Commits
from odradek.replication.leader import Followers
from odradek.replication.leading import LeadingReplica
from odradek.replication.refused import RefusedBatches
from odradek.replication.replica import PartitionRead, ReplicaStart

__all__ = ["Partition", "PartitionRead"]


class Partition(LeadingReplica):
    """A partition kept here; `take_role` makes it what the cluster's image says."""

    __slots__ = ("_commits", "_refused")

    def __init__(self, start: ReplicaStart) -> None:
        super().__init__(start)
        # What waits for a flush, with flush.messages only.
        self._commits: Commits | None = None
        # What has to come again before what follows it may be taken; None nearly always.
        self._refused: RefusedBatches | None = None
        self.refusal = NotLeaderOrFollower(f"{self.topic_partition} has no leader yet; refresh the metadata.")

    # --- appending ---------------------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: memoryview | bytes, *, required_acks: int, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Append one client's batches and move the high watermark; wakes the fetches that wait for it.

        Where flush.messages asks for a flush first, or replicas have to take it, the high watermark follows: as long
        as it is not above the last offset `committed` is to be waited for before acks=all is answered.

        Raises NotEnoughReplicas for acks=all when fewer than min.insync.replicas are in sync (never more
        than there are replicas, as Kafka counts), NotLeaderOrFollower, also while the registry is silent and another
        broker may lead (`confirmation`), KafkaStorageError, and whatever `Log.append` raises.
        """
        if self.refusal is not None:
            self._note_refused(records, self.refusal)
            raise self.refusal.with_traceback(None)
        if self.context.is_registry_silent and not self.is_confirmed:
            failure = self.unconfirmed()
            self._note_refused(records, failure)
            raise failure
        if required_acks == -1 and len(self.in_sync_replicas) < self.min_insync_replicas:
            self._check_in_sync(records)
        if self._refused is not None:
            skipped = self._refused.skipped(records, self.log.producers)
            if skipped is not None:
                raise skipped
        try:
            result = self.log.append(records, leader_epoch=self.leader_epoch, origin=origin)
        except KafkaStorageError as failure:
            self._note_refused(records, failure)
            raise
        if self._refused is not None:
            self._refused.taken(records)
            if not self._refused:
                self._refused = None
        if not result.is_duplicate:
            size_bytes = result.size_bytes
            self.bytes_in += size_bytes
            self.batches_in += 1
            self.records_in += result.record_count
            if self.followers is not None or self.log.must_flush:
                self._commit_later(result)
                return result
            self.high_watermark = result.last_offset + 1
            if self.waiting:
                for fetch in tuple(self.waiting):
                    fetch.advanced(size_bytes)
        return result

    def _note_refused(self, records: memoryview | bytes, failure: Exception) -> None:
        if self.gone is not None:
            return
        if self._refused is None:
            self._refused = RefusedBatches(self.context.now)
        self._refused.note(records, failure)

    def _commit_later(self, result: AppendResult) -> None:
        size_bytes = result.size_bytes
        self._unshown_bytes += size_bytes
        if self.log.must_flush:
            self._known_commits().add(result.last_offset + 1, size_bytes)
        else:
            self._own_end_offset = result.last_offset + 1
        if self.followers is None:
            return
        for fetch in tuple(self.log_end_watch.waiting):
            fetch.advanced(size_bytes)
        if not self.log.must_flush and not self.followers.counted:
            self._advance_high_watermark()

    def _known_commits(self) -> Commits:
        if self._commits is None:
            self._commits = Commits(self.log, flusher=self.context.flusher, on_commit=self._flushed)
        return self._commits

    def _flushed(self, end_offset: int, size_bytes: int) -> None:
        del size_bytes  # It is among what is not shown yet.
        self._own_end_offset = max(self._own_end_offset, end_offset)
        if self.refusal is None:
            self._advance_high_watermark()

    def is_flush_due(self, last_offset: int) -> bool:
        """Whether the record at `last_offset` waits for a flush that flush.messages asks for."""
        return self._commits is not None and self._own_end_offset <= last_offset

    async def flushed(self, last_offset: int) -> None:
        """Returns once the record at `last_offset`, which was appended, is as safe here as flush.messages asks for.

        Raises KafkaStorageError when the disk failed, UnknownTopicOrPartition when the topic was deleted meanwhile.
        """
        if self.is_flush_due(last_offset):
            try:
                await self._known_commits().wait(last_offset + 1)
            except KafkaStorageError as failure:
                raise self.gone or failure from failure

    async def committed(self, last_offset: int, *, seconds_max: float) -> None:
        """Returns once the record at `last_offset`, which was appended, is committed.

        Raises KafkaStorageError when the disk failed, UnknownTopicOrPartition when the topic was deleted meanwhile,
        NotLeaderOrFollower when another broker leads meanwhile, NotEnoughReplicasAfterAppend, and RequestTimedOut after
        `seconds_max`: the record is in the log then, and whether it stays is not known.
        """
        if self.high_watermark > last_offset:
            return
        if self.followers is None and self.refusal is None:
            await self.flushed(last_offset)
            return
        self.require_leader()
        waiter = _FutureWaiter()
        self.unacknowledged.add(waiter, last_offset + 1)
        try:
            async with asyncio.timeout(seconds_max):
                await waiter.future
        except TimeoutError:
            raise RequestTimedOut(
                f"the replicas {list(self.in_sync_replicas)} of {self.topic_partition} have not all taken offset "
                f"{last_offset} within {seconds_max:g} s; it is written, and may count or not."
            ) from None
        finally:
            self.unacknowledged.forget(waiter)

    # --- enough replicas ---------------------------------------------------------------------------------------------

    def _check_in_sync(self, records: memoryview | bytes) -> None:
        needed = self.in_sync_needed
        if len(self.in_sync_replicas) < needed:
            failure = NotEnoughReplicas(
                f"{self.topic_partition} has {count(len(self.in_sync_replicas), 'replica')} in sync and needs "
                f"{needed} for acks=all; nothing was written. Wait for a replica to catch up or lower "
                "min.insync.replicas."
            )
            self._note_refused(records, failure)
            raise failure

    def _give_up_without_enough_replicas(self) -> None:
        """The set has become too small for what waits: it stays in the log, and nobody vouches for it.

        Kafka lets such a producer wait for its time limit; the answer cannot become better meanwhile.
        """
        needed = self.in_sync_needed
        if self.unacknowledged and len(self.in_sync_replicas) < needed:
            self.unacknowledged.fail(
                NotEnoughReplicasAfterAppend(
                    f"{self.topic_partition} has {count(len(self.in_sync_replicas), 'replica')} in sync and needs "
                    f"{needed} for acks=all; the records were written and may be lost. Send them again."
                )
            )

    def _ask_for(self, members: Collection[int]) -> None:
        if self.followers is not None:
            self.followers.propose(members)
            self.context.propose(self)

    # --- roles -------------------------------------------------------------------------------------------------------

    def take_role(self, state: PartitionImage) -> None:
        """Follow the cluster's image; a state older than the one followed is passed over.

        A new epoch wakes whoever waits, who may have to look for another leader; only producers go on waiting where
        this broker goes on leading. Raises KafkaStorageError when the epoch cannot be noted; the partition leads
        nothing then, until the same state is taken again with success.
        """
        if (state.leader_epoch, state.partition_epoch) < (self.leader_epoch, self.partition_epoch):
            return
        if self.gone is not None:
            return
        is_new = (state.leader, state.leader_epoch) != (self.leader, self.leader_epoch)
        goes_on = self.refusal is None and state.leader == self.leader
        is_settled = state.partition_epoch != self.partition_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.adding_replicas = state.adding
        self.in_sync_replicas = state.isr
        self.eligible_replicas = state.elr
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        try:
            if state.leader == self.context.broker_id:
                self._lead(is_new=is_new, goes_on=goes_on, is_settled=is_settled)
            elif is_new:
                self._stop_leading()
        except KafkaStorageError as failure:
            self._disturb(failure)
            raise
        finally:
            # Also where it cannot lead: whom it followed until now it follows no more.
            if is_new:
                self.context.role_changed(self)

    def _lead(self, *, is_new: bool, goes_on: bool, is_settled: bool) -> None:
        now = self.context.now()
        has_others = len(self.replicas) > 1
        if is_new:
            self.refusal = self._not_leading()
            self.epoch_start_offset = self.log.log_end_offset
            if goes_on:
                self._wake_readers()
            else:
                self._disturb(self.refusal)
                self.led_since_epoch = self.leader_epoch
                # What a former leader of ours left unflushed is as safe as the rest of what was taken from it.
                self._own_end_offset = self.log.log_end_offset
                self._unshown_bytes = 0
            self.followers = None
        if has_others and self.followers is None:
            # Also when nothing is ever written in this epoch: followers ask where the one before it ended.
            self.log.assign_leader_epoch(self.leader_epoch)
        if not has_others:
            self.followers = None
        elif self.followers is None:
            # While it was alone it vouched for all that it showed.
            self._own_end_offset = max(self._own_end_offset, self.high_watermark)
            self.followers = Followers(self.context.broker_id)
            self.followers.begin(self.replicas, self.in_sync_replicas, now=now)
        else:
            self.followers.update(self.replicas, self.in_sync_replicas, now=now, is_settled=is_settled)
        self.refusal = None
        self._note_for_followers()
        self._give_up_without_enough_replicas()
        self._advance_high_watermark()

    def _stop_leading(self) -> None:
        self.followers = None
        self.refusal = self._not_leading()
        self._disturb(self.refusal)

    def _not_leading(self) -> NotLeaderOrFollower:
        if self.leader == NO_LEADER:
            return NotLeaderOrFollower(f"{self.topic_partition} has no leader now; refresh the metadata.")
        return NotLeaderOrFollower(
            f"{self.topic_partition} is led by broker {self.leader}, not by {self.context.broker_id}; refresh the "
            "metadata."
        )

    def _wake_readers(self) -> None:
        super()._wake_readers()
        for fetch in tuple(self.log_end_watch.waiting):
            fetch.disturbed()


class _FutureWaiter:
    """Waits at one place, for a coroutine."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def reached(self, place: Waiters, failure: Exception | None) -> None:
        del place
        if self.future.done():
            return
        if failure is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(failure)
