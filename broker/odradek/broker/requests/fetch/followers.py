"""Reads the partitions of a follower's fetch, and notes the follower's position.

A follower gets everything up to the log's end. Its fetch offset shows that it has all records below, and moves the
high watermark. The offset counts only when the fetch matches the leader's log. Otherwise the answer names the offset
where the two logs diverge, and the follower truncates its log there first.

A session names all partitions that a follower fetches from this broker, and few of them change between two fetches.
`session_changes` has the changed ones, and only those are read.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import filterfalse

from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.purgatory import Watched
from odradek.broker.requests.fetch.reading import Fetched, FetchReading, FetchTarget
from odradek.broker.requests.fetch.session_changes import SessionChanges


class FollowerReading(FetchReading):
    """One follower's fetch."""

    __slots__ = (
        "_after_wait",
        "_broker_epoch",
        "_broker_id",
        "_changes",
        "_debt_bytes",
        "_held_back",
        "_throttled_bytes",
    )

    def __init__(
        self,
        partitions: HostedPartitions,
        targets: Collection[FetchTarget],
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
        self._after_wait = False
        self._changes = changes
        # The targets that the throttle holds back, and the bytes that the last `read` counted: all, and as debt.
        self._held_back: set[int] = set()
        self._throttled_bytes = 0
        self._debt_bytes = 0.0

    def list_watched(self, results: list[Fetched]) -> list[Watched]:
        """The ends of the logs. An append to a throttled partition does not wake the fetch."""
        del results  # The targets that were read are watched, and the session for the others.
        held_back, changes = self._held_back, self._changes
        watched: list[Watched] = [
            target.partition.replica.log_end_watch
            for target in (self.targets if changes is None else changes.changed)
            if target.partition is not None and id(target) not in held_back
        ]
        if changes is not None:
            watched.append(changes.watch)
        return watched

    def read(self, *, after_wait: bool = False) -> list[Fetched]:
        """As for a client. A read after a wait shows nothing new about the follower."""
        self._after_wait = after_wait
        if self._throttled_bytes:
            # What was read before the wait was not sent.
            self._partitions.context.throttles.leader.refund(self._throttled_bytes, self._debt_bytes)
            self._throttled_bytes, self._debt_bytes = 0, 0.0
        self._held_back.clear()
        changes = self._changes
        if changes is None:
            return self._read(self.targets)
        if not after_wait:
            changes.last_request.at_seconds = self._partitions.context.now()
        return self._read([*filterfalse(partial(self._mark_unchanged, changes), [*changes.changed])])

    async def read_in_turns(self, *, after_wait: bool = False) -> list[Fetched]:
        """At once: a broker is no stranger, and reads again what changed alone."""
        return self.read(after_wait=after_wait)

    def _mark_unchanged(self, changes: SessionChanges, target: FetchTarget) -> bool:
        """Leave `target` out from now on if nothing changed since its last answer; whether that is so."""
        partition = target.partition
        if partition is None or partition.leader is None:
            return False
        replica = partition.replica
        offsets = replica.log.offsets
        if (
            target.matching_epoch != replica.leader_epoch
            or target.fetch_offset != offsets.log_end_offset
            or target.high_watermark != target.fetch_offset
            or replica.high_watermark != target.fetch_offset
            or target.log_start_offset != offsets.log_start_offset
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

    def _read_one(self, target: FetchTarget, fetched: Fetched) -> None:
        partition = target.partition
        if partition is None or partition.replica.gone is not None:
            partition = target.partition = self._partitions.get_by_key(target.topic, target.index)
        fetched.partition = partition
        replica = partition.replica
        is_held_back = replica.is_throttled_as_leader and self._is_held_back(partition, target)
        leader = partition.require_leader(target.current_leader_epoch)
        records, fetched.diverging = partition.reader.read_for_follower(
            target.fetch_offset,
            0 if is_held_back else min(target.bytes_max, max(0, self._bytes_max - self.size)),
            at_least_one_batch=self.size == 0 and not is_held_back,
            last_fetched_epoch=target.last_fetched_epoch,
        )
        if fetched.diverging is None and not self._after_wait:
            leader.follower_fetched(
                self._broker_id,
                broker_epoch=self._broker_epoch,
                fetch_offset=target.fetch_offset,
                log_start_offset=target.follower_log_start,
                current_leader_epoch=target.current_leader_epoch,
            )
        if fetched.diverging is not None:
            self._fill_offsets(partition, fetched)
            return
        target.matching_epoch = replica.leader_epoch
        # Read after the leader has noted the fetch.
        fetched.high_watermark = replica.high_watermark
        fetched.last_stable_offset = replica.last_stable_offset
        fetched.log_start_offset = replica.log.offsets.log_start_offset
        # Only in a session: without one, every fetch would be answered at once.
        if self._changes is not None and fetched.high_watermark != target.high_watermark:
            self.must_answer_now = self.must_answer_now or self._partitions.context.pushes_high_watermark
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

    def _is_held_back(self, partition: Partition, target: FetchTarget) -> bool:
        """Whether the follower gets nothing of a throttled partition now (KIP-73); never while it is in sync."""
        followers = None if partition.leader is None else partition.leader.followers
        if followers is None or self._broker_id in followers.in_sync:
            return False
        if not self._partitions.context.throttles.leader.holds_back():
            return False
        self._held_back.add(id(target))
        return True
