"""A replica that leads others: what it gives them, what their questions tell it, and who is in sync.

The high watermark is the smallest end among those that count (`leader.Followers`); it moves when a follower fetches,
when the leader's own end moves and it is alone, and when the controller says who is in sync. Proposals for the in-sync
set are made here and carried by `in_sync`.

What it leaves out: clients' appends and changes of role (`partition`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from odradek.foundation.errors import (
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    RequestError,
    UnknownLeaderEpoch,
)
from odradek.log.files import FileSlice
from odradek.replication.confirmation import ALWAYS, confirmed_as_of, is_fresh, others_electable
from odradek.replication.follower import FollowingReplica
from odradek.replication.leader import Followers
from odradek.replication.purgatory import Watch
from odradek.replication.replica import PartitionRead, ReplicaStart

logger = logging.getLogger(__name__)


class LeadingReplica(FollowingReplica):
    """The half of a partition that leads followers."""

    __slots__ = (
        "_own_end_offset",
        "epoch_start_offset",
        "followers",
        "log_end_watch",
    )

    def __init__(self, start: ReplicaStart) -> None:
        super().__init__(start)
        self.followers: Followers | None = None
        """Of a leader with other replicas."""
        self.epoch_start_offset = self.log.log_end_offset
        """Where the log ended when this broker began to lead."""
        self.log_end_watch = Watch()
        """Followers' fetches that wait for the log's end, and what their sessions have settled."""
        # What this broker itself vouches for: the log's end, less what flush.messages wants flushed first.
        self._own_end_offset = self.log.log_end_offset

    # --- the high watermark ------------------------------------------------------------------------------------------

    def _advance_high_watermark(self) -> None:
        """Move it to where all that count have come; not while too few are in sync, as Kafka since 3.7."""
        followers = self.followers
        end_offset = self._own_end_offset
        if followers is not None:
            if len(self.in_sync_replicas) < self.in_sync_needed:
                return
            end_offset = followers.held_by_all(end_offset)
            if followers.has_others and end_offset > self.high_watermark:
                context = self.context
                end_offset = followers.held_by_joiners(
                    end_offset,
                    leader_end_offset=self.log.log_end_offset,
                    now=context.now(),
                    lag_seconds_max=context.lag_seconds_max,
                    is_eligible=context.is_eligible,
                )
        if end_offset > self.high_watermark:
            self._show(end_offset)
            if self.context.tells_at_once:
                for fetch in tuple(self.log_end_watch.waiting):
                    fetch.disturbed()

    @property
    def in_sync_needed(self) -> int:
        """How many have to be in sync for acks=all: never more than there are, those that only come left out. (Kafka
        counts them: moving a partition of one replica, it refuses producers until the new one has caught up.)
        """
        return min(self.min_insync_replicas, len(self.replicas) - len(self.adding_replicas))

    def require_in_sync(self, count: int) -> None:
        """min.insync.replicas is `count` from now on. With a smaller one the high watermark may have stood still for
        replicas that are not needed any more, and nobody who could move it may come.
        """
        self.min_insync_replicas = count
        if self.refusal is None:
            self._advance_high_watermark()

    # --- while the registry is silent --------------------------------------------------------------------------------

    @property
    def confirmed_as_of(self) -> float:
        """As of when nobody else led, by what followers show (`confirmation`)."""
        followers = self.followers
        if followers is None:
            return ALWAYS
        context = self.context
        others = others_electable(
            own=context.broker_id,
            replicas=self.replicas,
            in_sync=(*self.in_sync_replicas, *followers.in_sync),
            proposed=followers.proposed or (),
            eligible=self.eligible_replicas,
            is_unclean_allowed=self.is_unclean_election_allowed,
        )
        topic_id, index = self.topic_id.bytes, self.topic_partition.partition
        return confirmed_as_of(
            others, lambda broker: context.followed_as_of(broker, topic_id, index, self.leader_epoch)
        )

    @property
    def is_confirmed(self) -> bool:
        context = self.context
        if not context.is_registry_silent:
            return True
        return is_fresh(self.confirmed_as_of, now=context.now(), seconds_max=context.confirmed_seconds_max)

    def turn_clients_away(self) -> None:
        """Answer the clients that wait here, who have to look whether another broker leads. Followers wait on."""
        failure = self.unconfirmed()
        for fetch in tuple(self.waiting):
            fetch.disturbed()
        self.unacknowledged.fail(failure)
        self.undeleted.fail(failure)

    @property
    def has_waiting_clients(self) -> bool:
        return bool(self.waiting or self.unacknowledged or self.undeleted)

    # --- followers ---------------------------------------------------------------------------------------------------

    def read_as_leader(
        self,
        fetch_offset: int,
        bytes_max: int,
        *,
        at_least_one_batch: bool,
        last_fetched_epoch: int,
        current_leader_epoch: int,
    ) -> tuple[PartitionRead, tuple[int, int] | None]:
        """What a follower is given: batches up to the log's end, or where its log and this one part.

        Raises as `read`, and OffsetOutOfRange when the follower's last epoch is not known here.
        """
        self.require_leader(current_leader_epoch)
        log = self.log
        found = PartitionRead(None, self.high_watermark, self.last_stable_offset, log.log_start_offset)
        if last_fetched_epoch >= 0:
            diverging = self.divergence(last_fetched_epoch, fetch_offset)
            if diverging is not None:
                return found, diverging
        self._require_in_range(fetch_offset)
        records: FileSlice | None = None
        if fetch_offset < log.log_end_offset and (bytes_max > 0 or at_least_one_batch):
            records = log.read(fetch_offset, bytes_max=bytes_max, at_least_one_batch=at_least_one_batch)
        return found._replace(slice=records), None

    def follower_fetched(
        self,
        broker_id: int,
        *,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        current_leader_epoch: int,
    ) -> None:
        """A follower asked for `fetch_offset`, so it has all below: the high watermark may move, it may be in sync.

        To be called after its fetch was found to fit this log. Raises UnknownLeaderEpoch or NotLeaderOrFollower for a
        broker that is no replica of this partition, as far as this leader has heard.
        """
        followers = self.followers
        follower = None if followers is None else followers.known.get(broker_id)
        if followers is None or follower is None:
            if current_leader_epoch == self.leader_epoch:
                # It has heard of an assignment that has not come here yet.
                raise UnknownLeaderEpoch(
                    f"{self.topic_partition} is kept by {list(self.replicas)}, not by {broker_id}."
                )
            raise NotLeaderOrFollower(f"{broker_id} is not among the replicas of {self.topic_partition}.")
        context = self.context
        low_watermark_before = follower.log_start_offset
        now = context.now()
        follower.fetched(
            offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now=now,
            broker_epoch=broker_epoch,
        )
        if followers.may_join(
            follower,
            high_watermark=self.high_watermark,
            epoch_start_offset=self.epoch_start_offset,
            now=now,
            is_eligible=context.is_eligible,
        ):
            self._ask_for(followers.in_sync | {broker_id})
        self._advance_high_watermark()
        if self.undeleted and log_start_offset > low_watermark_before:
            self.undeleted.release_any(self.low_watermark)

    def _ask_for(self, members: Collection[int]) -> None:
        """Propose `members` as the in-sync set."""
        raise NotImplementedError

    def shrink_in_sync(self) -> None:
        """Propose an in-sync set without those that have lagged for too long; called now and then."""
        followers = self.followers
        if followers is None or self.refusal is not None:
            return
        context = self.context
        lagging = followers.lagging(
            leader_end_offset=self.log.log_end_offset,
            now=context.now(),
            lag_seconds_max=context.lag_seconds_max,
        )
        if lagging:
            logger.info(
                "%s: %s lag behind the end %d and are to leave the in-sync set %s",
                self.topic_partition,
                sorted(lagging),
                self.log.log_end_offset,
                list(self.in_sync_replicas),
            )
            self._ask_for(followers.in_sync - lagging)

    def proposal_refused(self, proposed: frozenset[int], failure: RequestError, *, is_final: bool) -> None:
        """The controller did not take a proposal. Unless `is_final` it may have, and a newer image will tell."""
        followers = self.followers
        if followers is None or followers.proposed != proposed:
            return
        logger.debug(
            "%s: the in-sync set %s was not taken: %s", self.topic_partition, sorted(proposed), failure
        )
        if is_final:
            followers.withdraw(now=self.context.now())
            self._advance_high_watermark()

    def follower_lags(self) -> dict[int, int]:
        """How many records each follower is behind the log's end; all there are, when it was not heard of yet."""
        if self.followers is None:
            return {}
        start, end = self.log.log_start_offset, self.log.log_end_offset
        return {
            broker: end - max(follower.end_offset, start) for broker, follower in self.followers.known.items()
        }

    def _log_start_moved(self) -> None:
        super()._log_start_moved()
        self._note_for_followers()

    def _note_for_followers(self) -> None:
        """Something that followers hear of with their next fetch."""
        for listener in tuple(self.log_end_watch.waiting):
            listener.noted()

    # --- deletion ----------------------------------------------------------------------------------------------------

    @property
    def low_watermark(self) -> int:
        """All replicas that are live have given up what lies below."""
        start: int = self.log.log_start_offset
        if self.followers is None:
            return start
        return self.followers.low_watermark(start, self.context.brokers)

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start up to `before_offset` (-1: the high watermark); returns the new start.

        The followers hear of it with their next fetch: until `low_watermark` is there they may have what lies below.
        Raises OffsetOutOfRange above the high watermark or for another negative number, PolicyViolation for a
        log that is only compacted, NotLeaderOrFollower, KafkaStorageError.
        """
        self.require_leader()
        self.require_confirmed()
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
        self.advance_log_start(target)
        for fetch in tuple(self.log_end_watch.waiting):
            fetch.disturbed()
        start: int = self.log.log_start_offset
        return start
