"""What the leader of a partition knows of its followers, and what follows from it.

A follower's fetch says how far it has got: all below the offset it asks for is in its log. From that come the high
watermark, who falls out of the in-sync set and who may come in. The rules are Apache Kafka's: a follower is caught
up at the time of a fetch that reached the end of the leader's log, or of the fetch before, when it reached the end
as it was then; and one that is on its way into the set is counted in the high watermark before it is in, so that
nothing is acknowledged that a member could lack.

Pure but for its own state: times are handed in, seconds that never go back. What it leaves out: reading, who is told
of a new high watermark, and the way a proposal takes to the controller (`in_sync`).

Sources: Kafka's design 4.7, KIP-497 (AlterPartition), KIP-841 and KIP-903 (brokers that may not come in).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from odradek.foundation.errors import NotLeaderOrFollower

UNKNOWN: Final = -1
# Between two proposals of a follower that the controller did not take: one that stops in order goes on fetching for
# some seconds. Another member may have been the reason, so it must not be long.
BARRED_SECONDS: Final = 0.5

# (broker id, epoch of its registration or -1) -> whether it is live as that registration and not shutting down.
Eligible = Callable[[int, int], bool]


class Asked:
    """When a follower's fetch session asked last: one object for all partitions of which it has everything."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = float("-inf")


class Follower:
    """One follower as its leader knows it; offsets are UNKNOWN before its first fetch in this epoch."""

    __slots__ = (
        "_asked",
        "_barred",
        "_caught_up_at",
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
        # Of the session in which it rests.
        self._asked: Asked | None = None
        # The registration as which the controller did not take it, and until when it is not proposed again.
        self._barred = (UNKNOWN, float("-inf"))
        self.fetched_at = float("-inf")
        self.leader_end_offset = UNKNOWN
        """Where the leader's log ended at its last fetch."""

    @property
    def caught_up_at(self) -> float:
        """When it last had all that the leader had."""
        asked = self._asked
        return self._caught_up_at if asked is None else max(self._caught_up_at, asked.at)

    def rest(self, asked: Asked) -> None:
        """It has all there is: until it stirs, each question of its session shows that it is caught up."""
        if self._asked is not None:
            self.stir(self._asked)
        self._asked = asked

    def stir(self, asked: Asked) -> None:
        """It does not rest in that session any more."""
        if self._asked is asked:
            self._caught_up_at = self.caught_up_at
            self.fetched_at = max(self.fetched_at, asked.at)
            self._asked = None

    def fetched(
        self, *, offset: int, log_start_offset: int, leader_end_offset: int, now: float, broker_epoch: int
    ) -> None:
        """It asked for `offset`. Raises NotLeaderOrFollower when it comes from an older life of the broker."""
        if -1 < broker_epoch < self.broker_epoch:
            raise NotLeaderOrFollower(
                f"broker {self.broker_id} fetches with epoch {broker_epoch} and has registered with "
                f"{self.broker_epoch} since."
            )
        if self._asked is not None:
            self.stir(self._asked)
        if offset >= leader_end_offset:
            self._caught_up_at = max(self._caught_up_at, now)
        elif offset >= self.leader_end_offset:
            self._caught_up_at = max(self._caught_up_at, self.fetched_at)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = leader_end_offset
        self.fetched_at = now
        self.broker_epoch = max(self.broker_epoch, broker_epoch)

    def bar(self, *, now: float) -> None:
        """The controller did not take it into the set: it is stopping, or gone, and asking with each of its fetches
        would hear nothing else. As another registration it may be proposed at once.
        """
        self._barred = self.broker_epoch, now + BARRED_SECONDS

    def is_barred(self, *, now: float) -> bool:
        """Whether it is too early to propose it again."""
        epoch, until = self._barred
        return epoch == self.broker_epoch and now < until

    def is_caught_up(self, *, leader_end_offset: int, now: float, lag_seconds_max: float) -> bool:
        """Whether it holds all, or did not longer ago than is allowed."""
        return self.end_offset == leader_end_offset or now - self.caught_up_at <= lag_seconds_max


class Followers:
    """All followers of one partition in one epoch of its leader, the in-sync set, and the one that is proposed."""

    __slots__ = ("_leader", "counted", "in_sync", "known", "proposed")

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self.known: dict[int, Follower] = {}
        self.in_sync: frozenset[int] = frozenset()
        self.proposed: frozenset[int] | None = None
        """What the controller was asked for and has not answered."""
        self.counted: tuple[Follower, ...] = ()
        """Those whose records the high watermark waits for whatever else they do."""

    def begin(self, replicas: Iterable[int], in_sync: Collection[int], *, now: float) -> None:
        """A new epoch: what was known of followers was said to another leader, or to this one before."""
        self.known.clear()
        self.update(replicas, in_sync, now=now)

    def update(
        self, replicas: Iterable[int], in_sync: Collection[int], *, now: float, is_settled: bool = True
    ) -> None:
        """The controller says who is assigned and who is in sync; that settles an open proposal, which was made on the
        ground of an older state, unless only the assignment changed.
        """
        others = [broker for broker in replicas if broker != self._leader]
        self.known = {
            # Members count as caught up when the epoch begins: they have replica.lag.time.max.ms to show it.
            broker: self.known.get(broker)
            or Follower(broker, caught_up_at=now if broker in in_sync else float("-inf"))
            for broker in others
        }
        self.in_sync = frozenset(in_sync)
        if is_settled:
            self.proposed = None
        self._count()

    def propose(self, members: Collection[int]) -> None:
        """Ask for `members`: until that is settled the high watermark waits for all of either set."""
        self.proposed = frozenset(members)
        self._count()

    def withdraw(self, *, now: float) -> None:
        """The controller says that it did not take the proposal."""
        for broker in (self.proposed or frozenset()) - self.in_sync:
            follower = self.known.get(broker)
            if follower is not None:
                follower.bar(now=now)
        self.proposed = None
        self._count()

    def _count(self) -> None:
        members = self.in_sync | (self.proposed or frozenset())
        self.counted = tuple(follower for broker, follower in self.known.items() if broker in members)

    def held_by_all(self, leader_end_offset: int) -> int:
        """All below this offset is held by the leader, the in-sync set and the set proposed."""
        held = leader_end_offset
        for follower in self.counted:
            if follower.end_offset < held:
                held = follower.end_offset
        return held

    @property
    def has_others(self) -> bool:
        """Whether there are followers outside those sets."""
        return len(self.counted) < len(self.known)

    def held_by_joiners(
        self, held: int, *, leader_end_offset: int, now: float, lag_seconds_max: float, is_eligible: Eligible
    ) -> int:
        """As much of `held` as those have who could come in any moment: they would never reach a high watermark that
        does not wait for them.
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
        """Members that have not been caught up for longer than is allowed; none while a proposal is open."""
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
        follower: Follower,
        *,
        high_watermark: int,
        epoch_start_offset: int,
        now: float,
        is_eligible: Eligible,
    ) -> bool:
        """Whether a follower outside the set has all that is committed and all that came before this epoch."""
        return (
            self.proposed is None
            and follower.broker_id not in self.in_sync
            and follower.end_offset >= high_watermark
            and follower.end_offset >= epoch_start_offset
            and not follower.is_barred(now=now)
            and is_eligible(follower.broker_id, follower.broker_epoch)
        )

    def low_watermark(self, log_start_offset: int, live: Collection[int]) -> int:
        """All live replicas have given up what lies below; UNKNOWN while one of them has not been heard of."""
        starts = [one.log_start_offset for one in self.known.values() if one.broker_id in live]
        return min([log_start_offset, *starts])
