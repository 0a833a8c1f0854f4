"""The leader's knowledge of a partition's followers, and the decisions that follow from it.

A follower's fetch says how far it is: all below its fetch offset is in its log. From that come the high watermark,
which members leave the in-sync set, and which followers may join it. The rules are Apache Kafka's.

A follower is caught up when its fetch reaches the end of the leader's log. A fetch that reaches the end as it was at
the fetch before makes it caught up as of that earlier fetch. A follower that is about to join counts in the high
watermark before it is a member, so that no member lacks an acknowledged record.

Pure but for its own state: times are arguments, monotonic seconds. What it leaves out: reads, the requests that wait
for a high watermark, and sending proposals to the controller (`in_sync_proposals`).

Sources: Kafka's design 4.7, KIP-497 (AlterPartition), KIP-841 and KIP-903 (brokers that may not join).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from odradek.foundation.errors import NotLeaderOrFollower

UNKNOWN: Final = -1
# Between two proposals of a follower that the controller refused: a broker in a controlled shutdown still fetches for
# some seconds. Another member may have been the reason, so the time is short.
REPROPOSAL_BACKOFF_SECONDS: Final = 0.5

# (broker id, epoch of its registration or -1) -> whether it is live as that registration and not shutting down.
Eligible = Callable[[int, int], bool]


class LastRequest:
    """When a follower's session sent its last fetch: one object for all partitions without anything new for it."""

    __slots__ = ("at_seconds",)

    def __init__(self) -> None:
        self.at_seconds = float("-inf")


class FollowerState:
    """One follower as its leader knows it; offsets are UNKNOWN before its first fetch in this epoch."""

    __slots__ = (
        "_backoff",
        "_caught_up_at",
        "_last_request",
        "broker_epoch",
        "broker_id",
        "end_offset",
        "fetched_at",
        "leader_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, *, caught_up_at: float) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN
        self.end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self._caught_up_at = caught_up_at
        # Of the session in which it is parked.
        self._last_request: LastRequest | None = None
        # The registration with which the controller refused it, and until when it is not proposed again.
        self._backoff = (UNKNOWN, float("-inf"))
        self.fetched_at = float("-inf")
        self.leader_end_offset = UNKNOWN
        """Where the leader's log ended at its last fetch."""

    @property
    def caught_up_at(self) -> float:
        """When it last had all that the leader had."""
        last_request = self._last_request
        return (
            self._caught_up_at if last_request is None else max(self._caught_up_at, last_request.at_seconds)
        )

    def park(self, last_request: LastRequest) -> None:
        """It has all records: until it is active again, each fetch of its session shows that it is caught up."""
        if self._last_request is not None:
            self.activate(self._last_request)
        self._last_request = last_request

    def activate(self, last_request: LastRequest) -> None:
        """It is no longer parked in that session."""
        if self._last_request is last_request:
            self._caught_up_at = self.caught_up_at
            self.fetched_at = max(self.fetched_at, last_request.at_seconds)
            self._last_request = None

    def note_fetch(
        self, *, offset: int, log_start_offset: int, leader_end_offset: int, now: float, broker_epoch: int
    ) -> None:
        """It fetched from `offset`. Raises NotLeaderOrFollower for a fetch of an older registration of the broker."""
        if -1 < broker_epoch < self.broker_epoch:
            raise NotLeaderOrFollower(
                f"broker {self.broker_id} fetches with epoch {broker_epoch} and has registered with "
                f"{self.broker_epoch} since."
            )
        if self._last_request is not None:
            self.activate(self._last_request)
        if offset >= leader_end_offset:
            self._caught_up_at = max(self._caught_up_at, now)
        elif offset >= self.leader_end_offset:
            self._caught_up_at = max(self._caught_up_at, self.fetched_at)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = leader_end_offset
        self.fetched_at = now
        self.broker_epoch = max(self.broker_epoch, broker_epoch)

    def back_off(self, *, now: float) -> None:
        """The controller refused it: it is stopping or gone, and a proposal with each fetch would get the same answer.

        As another registration it may be proposed at once.
        """
        self._backoff = self.broker_epoch, now + REPROPOSAL_BACKOFF_SECONDS

    def is_backing_off(self, *, now: float) -> bool:
        """Whether it is too early to propose it again."""
        epoch, until = self._backoff
        return epoch == self.broker_epoch and now < until

    def is_caught_up(self, *, leader_end_offset: int, now: float, lag_seconds_max: float) -> bool:
        """Whether it has all records, or had them within `lag_seconds_max`."""
        return self.end_offset == leader_end_offset or now - self.caught_up_at <= lag_seconds_max


class FollowerStates:
    """All followers of one partition in one epoch of its leader, the in-sync set, and the one that is proposed."""

    __slots__ = ("_leader", "counted", "in_sync", "known", "proposed")

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self.known: dict[int, FollowerState] = {}
        self.in_sync: frozenset[int] = frozenset()
        self.proposed: frozenset[int] | None = None
        """The set that the controller has not yet answered."""
        self.counted: tuple[FollowerState, ...] = ()
        """The followers that the high watermark always waits for."""

    def begin(self, replicas: Iterable[int], in_sync: Collection[int], *, now: float) -> None:
        """A new epoch begins: earlier fetches went to another leader, or to this one before."""
        self.known.clear()
        self.update(replicas, in_sync, now=now)

    def update(
        self, replicas: Iterable[int], in_sync: Collection[int], *, now: float, is_settled: bool = True
    ) -> None:
        """Take over the replicas and the in-sync set from the controller's newest state.

        The state ends an open proposal, which was based on an older one, unless only the assignment changed.
        """
        others = [broker for broker in replicas if broker != self._leader]
        self.known = {
            # Members count as caught up when the epoch begins: they have replica.lag.time.max.ms to prove it.
            broker: self.known.get(broker)
            or FollowerState(broker, caught_up_at=now if broker in in_sync else float("-inf"))
            for broker in others
        }
        self.in_sync = frozenset(in_sync)
        if is_settled:
            self.proposed = None
        self._count()

    def propose(self, members: Collection[int]) -> None:
        """Propose `members`: until the controller has answered, the high watermark waits for all of either set."""
        self.proposed = frozenset(members)
        self._count()

    def withdraw(self, *, now: float) -> None:
        """The controller refused the proposal."""
        for broker in (self.proposed or frozenset()) - self.in_sync:
            follower = self.known.get(broker)
            if follower is not None:
                follower.back_off(now=now)
        self.proposed = None
        self._count()

    def _count(self) -> None:
        members = self.in_sync | (self.proposed or frozenset())
        self.counted = tuple(follower for broker, follower in self.known.items() if broker in members)

    def min_held_by_all(self, leader_end_offset: int) -> int:
        """The leader, the in-sync set and the proposed set hold all below this offset."""
        held = leader_end_offset
        for follower in self.counted:
            if follower.end_offset < held:
                held = follower.end_offset
        return held

    @property
    def has_others(self) -> bool:
        """Whether there are followers outside those sets."""
        return len(self.counted) < len(self.known)

    def min_held_by_joiners(
        self, held: int, *, leader_end_offset: int, now: float, lag_seconds_max: float, is_eligible: Eligible
    ) -> int:
        """As much of `held` as the followers have that may join at any moment.

        They would never reach a high watermark that does not wait for them.
        """
        for follower in self.known.values():
            if (
                follower not in self.counted
                and UNKNOWN < follower.end_offset < held
                and follower.is_caught_up(
                    leader_end_offset=leader_end_offset, now=now, lag_seconds_max=lag_seconds_max
                )
                and is_eligible(follower.broker_id, follower.broker_epoch)
            ):
                held = follower.end_offset
        return held

    def lagging(self, *, leader_end_offset: int, now: float, lag_seconds_max: float) -> frozenset[int]:
        """Members that have not been caught up for `lag_seconds_max`; none while a proposal is open."""
        if self.proposed is not None:
            return frozenset()
        return frozenset(
            broker
            for broker, follower in self.known.items()
            if broker in self.in_sync
            and not follower.is_caught_up(
                leader_end_offset=leader_end_offset, now=now, lag_seconds_max=lag_seconds_max
            )
        )

    def may_join(
        self,
        follower: FollowerState,
        *,
        high_watermark: int,
        epoch_start_offset: int,
        now: float,
        is_eligible: Eligible,
    ) -> bool:
        """Whether a follower outside the set has all committed records and all from before this epoch."""
        return (
            self.proposed is None
            and follower.broker_id not in self.in_sync
            and follower.end_offset >= high_watermark
            and follower.end_offset >= epoch_start_offset
            and not follower.is_backing_off(now=now)
            and is_eligible(follower.broker_id, follower.broker_epoch)
        )

    def low_watermark(self, log_start_offset: int, live: Collection[int]) -> int:
        """All live replicas have deleted the records below; UNKNOWN before the first fetch of one of them."""
        starts = [one.log_start_offset for one in self.known.values() if one.broker_id in live]
        return min([log_start_offset, *starts])
