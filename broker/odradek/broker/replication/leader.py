"""The role of a broker that leads a partition: clients' appends, the high watermark, followers and the in-sync set.

With one replica a record is committed once this log holds it, or once flush.messages is satisfied (`flush_waiters`).
The high watermark is then the log's end after every append, and that path is short. With followers it is the smallest
log end among those that count (`FollowerStates`). It moves when a follower fetches, and when the controller changes the
in-sync set.

Proposals for the in-sync set are made here and sent by `in_sync_proposals`.

What it leaves out: changes of role (`partition`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from odradek.broker.replication.confirmation import (
    ALWAYS,
    compute_confirmed_as_of,
    is_fresh,
    others_electable,
)
from odradek.broker.replication.flush_waiters import FlushWaiters
from odradek.broker.replication.in_sync_rules import FollowerStates
from odradek.broker.replication.replica import Replica
from odradek.foundation.errors import (
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    RequestError,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from odradek.foundation.words import count
from odradek.storage.config import LONG_MAX
from odradek.storage.log import AppendResult, Origin
from odradek.storage.verification import VerificationToken

logger = logging.getLogger(__name__)


class Leader:
    """A partition has one while this broker leads it: a new one whenever it begins to lead."""

    __slots__ = (
        "_end_offset",
        "_flush_waiters",
        "_has_ended",
        "_on_proposal",
        "epoch_start_offset",
        "followers",
        "replica",
    )

    def __init__(self, replica: Replica, *, on_proposal: Callable[[], None]) -> None:
        """`on_proposal` is called when the in-sync set has a new proposal."""
        self.replica = replica
        self._on_proposal = on_proposal
        self.followers: FollowerStates | None = None
        """None for a partition with one replica."""
        self.epoch_start_offset = replica.log.log_end_offset
        """Where the log ended when the leader epoch began."""
        # The log's end, less what flush.messages wants flushed first. Records of earlier leaders count as flushed.
        self._end_offset = self.epoch_start_offset
        # With flush.messages only.
        self._flush_waiters: FlushWaiters | None = None
        self._has_ended = False

    # --- epochs ------------------------------------------------------------------------------------------------------

    def begin_epoch(self) -> None:
        """A new leader epoch begins: what followers said before counts no more."""
        self.epoch_start_offset = self.replica.log.log_end_offset
        self.followers = None

    def end(self) -> None:
        """Another broker leads. Appends that wait for their flush still learn when it is done."""
        self._has_ended = True
        self.followers = None

    def update_replicas(self, *, settles_proposal: bool) -> None:
        """Count the replicas and the in-sync set of the controller's newest state.

        The state `settles_proposal` unless only the assignment changed. Raises KafkaStorageError when the leader epoch
        cannot be written.
        """
        replica = self.replica
        now = replica.context.now()
        if len(replica.replicas) == 1:
            self.followers = None
        elif self.followers is None:
            # Also when nothing is ever written in this epoch: followers ask where the one before it ended.
            replica.log.assign_leader_epoch(replica.leader_epoch)
            # All that a leader without followers has committed counts as flushed.
            self._end_offset = max(self._end_offset, replica.high_watermark)
            self.followers = FollowerStates(replica.context.broker_id)
            self.followers.begin(replica.replicas, replica.in_sync_replicas, now=now)
        else:
            self.followers.update(
                replica.replicas, replica.in_sync_replicas, now=now, is_settled=settles_proposal
            )

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | bytes,
        *,
        required_acks: int,
        origin: Origin = Origin.CLIENT,
        token: VerificationToken | None = None,
    ) -> AppendResult:
        """Append one client's batches, move the high watermark and wake the fetches that wait for it.

        Where flush.messages or followers delay the commit, the high watermark follows later, and acks=all waits for
        `wait_until_committed`. `token` is for a batch that begins a transaction.

        Raises NotEnoughReplicas for acks=all when too few replicas are in sync. Raises NotLeaderOrFollower while the
        registry is silent and another broker may lead, KafkaStorageError, and whatever `Log.append` raises.
        """
        replica = self.replica
        if replica.context.is_registry_silent and not self.is_confirmed:
            failure = self._build_unconfirmed_error()
            replica.note_rejected(records, failure)
            raise failure
        if required_acks == -1 and len(replica.in_sync_replicas) < replica.min_insync_replicas:
            self._check_in_sync(records)
        log = replica.log
        if replica.rejected_batches is not None:
            replica.check_order(records)
        try:
            result = log.appender.append(
                records, leader_epoch=replica.leader_epoch, origin=origin, token=token
            )
        except KafkaStorageError as failure:
            replica.note_rejected(records, failure)
            raise
        if replica.rejected_batches is not None:
            replica.note_appended(records)
        # Taken apart: a named tuple's attributes would take three times as long.
        _, last_offset, _, _, is_duplicate, record_count, size_bytes = result
        if not is_duplicate:
            replica.bytes_in += size_bytes
            replica.batches_in += 1
            replica.records_in += record_count
            if self.followers is not None or (log.config.flush_messages != LONG_MAX and log.must_flush):
                self._commit_later(result)
                return result
            replica.high_watermark = last_offset + 1
            if replica.waiting:
                for fetch in tuple(replica.waiting):
                    fetch.became_readable(size_bytes)
        return result

    def _commit_later(self, result: AppendResult) -> None:
        replica = self.replica
        size_bytes = result.size_bytes
        replica.uncommitted_bytes += size_bytes
        must_flush = replica.log.must_flush
        if must_flush:
            if self._flush_waiters is None:
                self._flush_waiters = FlushWaiters(
                    replica.log, flusher=replica.context.flusher, on_flushed=self._advance_flushed
                )
            self._flush_waiters.add(result.last_offset + 1)
        else:
            self._end_offset = result.last_offset + 1
        if self.followers is None:
            return
        for fetch in tuple(replica.log_end_watch.waiting):
            fetch.became_readable(size_bytes)
        if not must_flush and not self.followers.counted:
            self.advance_high_watermark()

    def _advance_flushed(self, end_offset: int) -> None:
        self._end_offset = max(self._end_offset, end_offset)
        if self.replica.refusal is None and not self._has_ended:
            self.advance_high_watermark()

    def is_flush_due(self, last_offset: int) -> bool:
        """Whether the record at `last_offset` waits for a flush that flush.messages asks for."""
        return self._flush_waiters is not None and self._end_offset <= last_offset

    async def wait_until_flushed(self, last_offset: int) -> None:
        """Wait until the record at `last_offset`, which was appended, is flushed as flush.messages asks for.

        Raises KafkaStorageError when the disk failed, UnknownTopicOrPartition when the topic was deleted.
        """
        if self._flush_waiters is not None and self._end_offset <= last_offset:
            try:
                await self._flush_waiters.wait(last_offset + 1)
            except KafkaStorageError as failure:
                raise self.replica.gone or failure from failure

    async def wait_until_committed(self, last_offset: int, *, seconds_max: float) -> None:
        """Wait until the record at `last_offset`, which was appended, is committed.

        Raises KafkaStorageError when the disk failed, UnknownTopicOrPartition when the topic was deleted,
        NotLeaderOrFollower when another broker leads by then, and NotEnoughReplicasAfterAppend. Raises
        RequestTimedOut after `seconds_max`: the record is in the log then, and may or may not be committed later.
        """
        replica = self.replica
        if self.followers is None:
            await self.wait_until_flushed(last_offset)
            return
        try:
            async with asyncio.timeout(seconds_max):
                await replica.pending_produces.wait(last_offset + 1)
        except TimeoutError:
            raise RequestTimedOut(
                f"the replicas {list(replica.in_sync_replicas)} of {replica.topic_partition} have not all taken offset "
                f"{last_offset} within {seconds_max:g} s; it is written, and may count or not."
            ) from None

    # --- the high watermark ------------------------------------------------------------------------------------------

    def advance_high_watermark(self) -> None:
        """Move it to the smallest log end that counts; not while too few replicas are in sync, as Kafka since 3.7."""
        replica = self.replica
        followers = self.followers
        end_offset = self._end_offset
        if followers is not None:
            in_sync = len(replica.in_sync_replicas)
            if in_sync < replica.min_insync_replicas and in_sync < self.in_sync_needed:
                return
            end_offset = followers.min_held_by_all(end_offset)
            if followers.has_others and end_offset > replica.high_watermark:
                context = replica.context
                end_offset = followers.min_held_by_joiners(
                    end_offset,
                    leader_end_offset=replica.log.log_end_offset,
                    now=context.now(),
                    lag_seconds_max=context.lag_seconds_max,
                    is_eligible=context.is_eligible,
                )
        if end_offset > replica.high_watermark:
            replica.advance_high_watermark(end_offset)
            if replica.context.pushes_high_watermark:
                replica.wake_followers()

    @property
    def in_sync_needed(self) -> int:
        """The replicas that acks=all needs in sync: never more than there are, without those that are being added.

        Kafka counts those too: while it moves a partition of one replica, it refuses producers until the new one has
        caught up.
        """
        replica = self.replica
        return min(replica.min_insync_replicas, len(replica.replicas) - len(replica.adding_replicas))

    def _check_in_sync(self, records: memoryview | bytes) -> None:
        replica, needed = self.replica, self.in_sync_needed
        if len(replica.in_sync_replicas) < needed:
            in_sync = count(len(replica.in_sync_replicas), "replica")
            failure = NotEnoughReplicas(
                f"{replica.topic_partition} has {in_sync} in sync and needs {needed} for acks=all; nothing was "
                "written. Wait for a replica to catch up or lower min.insync.replicas."
            )
            replica.note_rejected(records, failure)
            raise failure

    def fail_without_enough_replicas(self) -> None:
        """Fail the produces that wait when the in-sync set has become too small; their records stay in the log.

        Kafka lets such a producer wait for its time limit; the answer cannot become better in that time.
        """
        replica, needed = self.replica, self.in_sync_needed
        if replica.pending_produces and len(replica.in_sync_replicas) < needed:
            in_sync = count(len(replica.in_sync_replicas), "replica")
            replica.pending_produces.fail(
                NotEnoughReplicasAfterAppend(
                    f"{replica.topic_partition} has {in_sync} in sync and needs {needed} for acks=all; the records "
                    "were written and may be lost. Send them again."
                )
            )

    # --- while the registry is silent --------------------------------------------------------------------------------

    @property
    def confirmed_as_of(self) -> float:
        """As of when no other broker led, by what followers prove (`confirmation`)."""
        followers = self.followers
        if followers is None:
            return ALWAYS
        replica = self.replica
        context = replica.context
        others = others_electable(
            own=context.broker_id,
            replicas=replica.replicas,
            in_sync=(*replica.in_sync_replicas, *followers.in_sync),
            proposed=followers.proposed or (),
            eligible=replica.eligible_replicas,
            is_unclean_allowed=replica.is_unclean_election_allowed,
        )
        topic_id, index = replica.topic_id.bytes, replica.topic_partition.partition
        return compute_confirmed_as_of(
            others, lambda broker: context.followed_as_of(broker, topic_id, index, replica.leader_epoch)
        )

    @property
    def is_confirmed(self) -> bool:
        """Whether no other broker led a moment ago, as far as a leader can know without the registry."""
        context = self.replica.context
        if not context.is_registry_silent:
            return True
        return is_fresh(self.confirmed_as_of, now=context.now(), seconds_max=context.confirmed_seconds_max)

    def require_confirmed(self) -> None:
        """Raise NotLeaderOrFollower where the registry is silent and another broker may lead by now.

        It guards what clients are answered. Followers are always answered: their requests confirm the leader.
        """
        if self.replica.context.is_registry_silent and not self.is_confirmed:
            raise self._build_unconfirmed_error()

    def _build_unconfirmed_error(self) -> NotLeaderOrFollower:
        replica = self.replica
        return NotLeaderOrFollower(
            f"The registry does not answer broker {replica.context.broker_id}, and not every replica that may lead "
            f"{replica.topic_partition} instead still follows it; try again."
        )

    def fail_waiting_clients(self) -> None:
        """Answer the clients that wait here, so that they look for another leader. Followers wait on."""
        failure = self._build_unconfirmed_error()
        self.replica.wake_readers()
        self.replica.pending_produces.fail(failure)
        self.replica.pending_deletes.fail(failure)

    # --- followers ---------------------------------------------------------------------------------------------------

    def follower_fetched(
        self,
        broker_id: int,
        *,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        current_leader_epoch: int,
    ) -> None:
        """Count a follower's fetch: it has all below `fetch_offset`, so the high watermark and the ISR may change.

        To be called after its fetch was found to fit this log. Raises UnknownLeaderEpoch or NotLeaderOrFollower for a
        broker that is no replica of this partition in the newest state that this leader has.
        """
        replica = self.replica
        followers = self.followers
        follower = None if followers is None else followers.known.get(broker_id)
        if followers is None or follower is None:
            if current_leader_epoch == replica.leader_epoch:
                # The follower has a newer assignment than this leader.
                raise UnknownLeaderEpoch(
                    f"{replica.topic_partition} is kept by {list(replica.replicas)}, not by {broker_id}."
                )
            raise NotLeaderOrFollower(f"{broker_id} is not among the replicas of {replica.topic_partition}.")
        context = replica.context
        low_watermark_before = follower.log_start_offset
        now = context.now()
        follower.note_fetch(
            offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=replica.log.offsets.log_end_offset,
            now=now,
            broker_epoch=broker_epoch,
        )
        if followers.may_join(
            follower,
            high_watermark=replica.high_watermark,
            epoch_start_offset=self.epoch_start_offset,
            now=now,
            is_eligible=context.is_eligible,
        ):
            self._propose(followers, followers.in_sync | {broker_id})
        self.advance_high_watermark()
        if replica.pending_deletes and log_start_offset > low_watermark_before:
            replica.pending_deletes.release_any(self.low_watermark)

    def _propose(self, followers: FollowerStates, members: Collection[int]) -> None:
        followers.propose(members)
        self._on_proposal()

    def shrink_in_sync(self) -> None:
        """Propose an in-sync set without the members that have lagged for too long; called periodically."""
        followers = self.followers
        if followers is None:
            return
        replica = self.replica
        lagging = followers.lagging(
            leader_end_offset=replica.log.log_end_offset,
            now=replica.context.now(),
            lag_seconds_max=replica.context.lag_seconds_max,
        )
        if lagging:
            logger.info(
                "%s: %s lag behind the end %d and are to leave the in-sync set %s",
                replica.topic_partition,
                sorted(lagging),
                replica.log.log_end_offset,
                list(replica.in_sync_replicas),
            )
            self._propose(followers, followers.in_sync - lagging)

    def proposal_rejected(self, proposed: frozenset[int], failure: RequestError, *, is_final: bool) -> None:
        """The controller refused a proposal. Unless `is_final` it may have taken it, which a newer image will show."""
        followers = self.followers
        if followers is None or followers.proposed != proposed:
            return
        where = self.replica.topic_partition
        logger.debug("%s: the in-sync set %s was not taken: %s", where, sorted(proposed), failure)
        if is_final:
            followers.withdraw(now=self.replica.context.now())
            self.advance_high_watermark()

    def follower_lags(self) -> dict[int, int]:
        """The number of records that each follower is behind the log's end; all there are before its first fetch."""
        if self.followers is None:
            return {}
        start, end = self.replica.log.log_start_offset, self.replica.log.log_end_offset
        known = self.followers.known.items()
        return {broker: end - max(follower.end_offset, start) for broker, follower in known}

    # --- deletion ----------------------------------------------------------------------------------------------------

    @property
    def low_watermark(self) -> int:
        """All live replicas have deleted the records below."""
        start: int = self.replica.log.log_start_offset
        if self.followers is None:
            return start
        return self.followers.low_watermark(start, self.replica.context.brokers)

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start up to `before_offset` (-1: the high watermark); returns the new start.

        Followers learn it with their next fetch: until `low_watermark` is there they may have the records below.
        Raises OffsetOutOfRange above the high watermark or for another negative number, PolicyViolation for a
        log that is only compacted, NotLeaderOrFollower, KafkaStorageError.
        """
        self.require_confirmed()
        replica = self.replica
        config = replica.log.config
        if config.cleanup_compact and not config.cleanup_delete:
            raise PolicyViolation(
                f"{replica.topic_partition} has cleanup.policy=compact, under which only newer records replace older "
                "ones; add delete to the policy to delete records."
            )
        target = replica.high_watermark if before_offset == -1 else before_offset
        if target < 0 or target > replica.high_watermark:
            raise OffsetOutOfRange(
                f"{replica.topic_partition} can delete records below its high watermark {replica.high_watermark}, "
                f"not below {before_offset}."
            )
        replica.advance_log_start(target)
        replica.wake_followers()
        return replica.log.log_start_offset
