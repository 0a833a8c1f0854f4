"""What the partitions of a follower's fetch have for it, and what its leader learns from the question.

A follower is given everything up to the log's end. The offset that it asks for says that it has all below, and moves
the high watermark. It counts only when the fetch matches the leader's log. Where it does not, the answer names the
offset where the two logs diverge, and the follower truncates its log there first.

A session asks for all that a follower fetches from here, though little of it has changed since. `session_changes`
knows the partitions where nothing has, and those are not looked at.
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.handlers.fetch_reading import Fetched, FetchReading
from odradek.handlers.fetch_targets import Target
from odradek.handlers.session_changes import SessionChanges
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Watched


class FollowerReading(FetchReading):
    """One follower's fetch."""

    __slots__ = (
        "_broker_epoch",
        "_broker_id",
        "_changes",
        "_debt_bytes",
        "_held_back",
        "_is_again",
        "_throttled_bytes",
    )

    def __init__(
        self,
        partitions: HostedPartitions,
        targets: Collection[Target],
        *,
        bytes_max: int,
        broker_id: int,
        broker_epoch: int,
        changes: SessionChanges | None,
    ) -> None:
        """With the `changes` of a session, its unchanged partitions are not read."""
        super().__init__(partitions, targets, bytes_max=bytes_max)
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._is_again = False
        self._changes = changes
        # Those that have to wait for the throttle, and what was counted for it in the last `read`, in all and as debt.
        self._held_back: set[int] = set()
        self._throttled_bytes = 0
        self._debt_bytes = 0.0

    def watched(self, results: list[Fetched]) -> list[Watched]:
        """The ends of the logs. What waits for the throttle is not to be woken by more of it."""
        del results  # What is watched is what was read, and the session for what was not.
        held_back, changes = self._held_back, self._changes
        watched: list[Watched] = [
            target.partition.replica.log_end_watch
            for target in (self.targets if changes is None else changes.changed)
            if target.partition is not None and id(target) not in held_back
        ]
        if changes is not None:
            watched.append(changes.watch)
        return watched

    def read(self, *, is_again: bool = False) -> list[Fetched]:
        """As for a client; what is read again says nothing new of the follower."""
        self._is_again = is_again
        if self._throttled_bytes:
            # What was read before the wait was not sent.
            self._partitions.context.throttles.leader.take_back(self._throttled_bytes, self._debt_bytes)
            self._throttled_bytes, self._debt_bytes = 0, 0.0
        self._held_back.clear()
        changes = self._changes
        if changes is None:
            return self._read(self.targets)
        if not is_again:
            changes.last_request.at_seconds = self._partitions.context.now()
        return self._read(
            [target for target in list(changes.changed) if not self._mark_unchanged(changes, target)]
        )

    def _mark_unchanged(self, changes: SessionChanges, target: Target) -> bool:
        """Leave `target` out from now on, if all is as when it was answered last; whether it is."""
        partition = target.partition
        if partition is None or partition.leader is None:
            return False
        replica = partition.replica
        if (
            target.matching_epoch != replica.leader_epoch
            or target.fetch_offset != replica.log.log_end_offset
            or target.high_watermark != target.fetch_offset
            or replica.high_watermark != target.fetch_offset
            or target.log_start_offset != replica.log.log_start_offset
        ):
            return False
        followers = partition.leader.followers
        if followers is None or self._broker_id not in followers.in_sync:
            return False
        follower = followers.known.get(self._broker_id)
        if follower is None or not follower.end_offset == follower.leader_end_offset == target.fetch_offset:
            return False
        changes.mark_unchanged(target, partition, follower)
        return True

    def _read_one(self, target: Target, fetched: Fetched) -> None:
        partition = target.partition
        if partition is None or partition.replica.gone is not None:
            partition = target.partition = self._partitions.get_by_key(target.topic, target.index)
        fetched.partition = partition
        replica = partition.replica
        is_held_back = replica.is_throttled_as_leader and self._has_to_wait(partition, target)
        leader = partition.require_leader(target.current_leader_epoch)
        found, fetched.diverging = partition.reader.read_for_follower(
            target.fetch_offset,
            0 if is_held_back else min(target.bytes_max, max(0, self._bytes_max - self.size)),
            at_least_one_batch=self.size == 0 and not is_held_back,
            last_fetched_epoch=target.last_fetched_epoch,
        )
        if fetched.diverging is None and not self._is_again:
            leader.follower_fetched(
                self._broker_id,
                broker_epoch=self._broker_epoch,
                fetch_offset=target.fetch_offset,
                log_start_offset=target.follower_log_start,
                current_leader_epoch=target.current_leader_epoch,
            )
        if fetched.diverging is not None:
            self._tell_offsets(partition, fetched)
            return
        target.matching_epoch = replica.leader_epoch
        # As they are after the fetch was taken note of.
        fetched.high_watermark = replica.high_watermark
        fetched.last_stable_offset = replica.last_stable_offset
        fetched.log_start_offset = found.log_start_offset
        # In a session alone: whoever has none would never wait.
        if self._changes is not None and fetched.high_watermark != target.high_watermark:
            self.has_news = self.has_news or self._partitions.context.pushes_high_watermark
        records = found.slice
        if records is not None and records.size:
            fetched.records = records
            fetched.size = records.size
            self.size += records.size
            if replica.is_throttled_as_leader:
                self._throttled_bytes += records.size
                followers = leader.followers
                self._debt_bytes += self._partitions.context.throttles.leader.record(
                    records.size, is_in_sync=followers is not None and self._broker_id in followers.in_sync
                )

    def _has_to_wait(self, partition: Partition, target: Target) -> bool:
        """Whether the follower gets nothing of a throttled partition now (KIP-73); never while it is in sync."""
        followers = None if partition.leader is None else partition.leader.followers
        if followers is None or self._broker_id in followers.in_sync:
            return False
        if not self._partitions.context.throttles.leader.holds_back():
            return False
        self._held_back.add(id(target))
        return True
