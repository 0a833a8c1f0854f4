"""Share sessions: which partitions a member fetches from this broker (KIP-932). Each names its group and its member.

A session begins with epoch 0 and counts up with each request; -1 ends it. It ends with its connection too, and what
its member had acquired is released. A broker has a bounded number of sessions (group.share.max.share.sessions): beyond
that none begins, and none is taken from another member.

What it leaves out: what the end of a session releases (`leader`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol
from uuid import UUID

from odradek.foundation.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import FETCH_SESSION_PARTITIONS_MAX

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1

# (topic's id, partition)
Target = tuple[UUID, int]


class SessionKey(NamedTuple):
    """Names one session of this broker."""

    group_id: str
    member_id: str


class Abandoned(Protocol):
    """A fetch that waits."""

    def abandon(self) -> None:
        """Acquire nothing any more: the session is over."""
        ...


class ShareSession:
    """The partitions of one member, in the order in which it named them."""

    __slots__ = ("epoch", "fetches", "key", "targets", "turns")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.epoch = INITIAL_EPOCH + 1
        self.targets: dict[Target, None] = {}
        self.turns = 0
        """Fetches so far: each begins with another partition."""
        self.fetches: dict[Abandoned, None] = {}
        """Those that wait: they end with the session."""

    def update(self, added: Iterable[Target], forgotten: Iterable[Target]) -> None:
        """Raises InvalidRequest where it would have too many partitions."""
        for target in added:
            self.targets[target] = None
        for target in forgotten:
            self.targets.pop(target, None)
        if len(self.targets) > FETCH_SESSION_PARTITIONS_MAX:
            raise InvalidRequest(
                f"A share session has {FETCH_SESSION_PARTITIONS_MAX} partitions at most, not {len(self.targets)}."
            )

    def next_targets(self) -> list[Target]:
        """The partitions in the order of the next fetch."""
        targets = list(self.targets)
        first = self.turns % len(targets) if targets else 0
        self.turns += 1
        return targets[first:] + targets[:first]


class ShareSessions:
    """The sessions of one broker, never more than `count_max`."""

    def __init__(self, *, count_max: int) -> None:
        self._count_max = count_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_groups: Counter[str] = Counter()
        self.refused = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The partitions of all sessions."""
        return sum(len(session.targets) for session in self._sessions.values())

    def get(self, key: SessionKey) -> ShareSession:
        """Raises ShareSessionNotFound."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(
                f"Member {key.member_id} of {key.group_id} has no share session; begin one with epoch 0."
            )
        return session

    def has_group(self, group_id: str) -> bool:
        return group_id in self._of_groups

    def open(self, key: SessionKey) -> ShareSession:
        """Begin a session; one that the member had is replaced. Raises ShareSessionLimitReached."""
        self.remove(key)
        if len(self._sessions) >= self._count_max:
            self.refused += 1
            raise ShareSessionLimitReached(
                f"The broker has {self._count_max} share sessions (group.share.max.share.sessions); try again later."
            )
        session = self._sessions[key] = ShareSession(key)
        self._of_groups[key.group_id] += 1
        return session

    def advance(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session for its next request. Raises ShareSessionNotFound, InvalidShareSessionEpoch."""
        session = self.get(key)
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch(
                f"The share session of {key.member_id} expects epoch {session.epoch}, not {epoch}; begin one with "
                "epoch 0."
            )
        session.epoch = 1 if epoch >= _EPOCH_MAX else epoch + 1
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End a session; None where there is none."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._of_groups[key.group_id] -= 1
            if not self._of_groups[key.group_id]:
                del self._of_groups[key.group_id]
            for fetch in list(session.fetches):
                fetch.abandon()
        return session
