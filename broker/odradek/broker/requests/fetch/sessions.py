"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes.

A session keeps for each partition what the client asked and what it was last answered. An incremental answer has only
the partitions with records, an error, or changed offsets. Partitions that gave records move to the end of the
session's order, so that with a small byte limit the others are read first.

The cache is bounded (max.incremental.fetch.session.cache.slots). A new session evicts one that was not used for two
minutes, or else a smaller one of at least that age. Otherwise the client gets session id 0 and sends full requests.
Followers' sessions are privileged: they evict any client's, and no client evicts theirs while they are in use.
`session_changes` has the partitions of theirs that changed. What it leaves out: reading, and bytes on the wire.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, ValuesView
from typing import Final

from odradek.broker.replication.confirmation import NEVER, Proof
from odradek.broker.requests.fetch.reading import FetchTarget
from odradek.broker.requests.fetch.session_changes import SessionChanges
from odradek.foundation.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.wire.protocol.hot.fetch_request import (
    FIRST_WITH_TOPIC_IDS,
    NO_SESSION,
    AskedPartition,
    Key,
)

INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1
EVICTION_AGE_SECONDS: Final = 120.0
NO_FOLLOWER: Final = -1


class ManyPartitions(Exception):
    """A session has more partitions than one turn reads."""

    def __init__(self, session: FetchSession) -> None:
        super().__init__()
        self.session = session


class ManyTargets(dict[Key, FetchTarget]):
    """The partitions of a session that has many. A reader of all of them is stopped: small sessions pay nothing
    for the question.
    """

    def __init__(self, targets: dict[Key, FetchTarget], session: FetchSession) -> None:
        super().__init__(targets)
        self._session = session

    def values(self) -> ValuesView[FetchTarget]:  # type: ignore[override]  # as of a dict
        """Raises ManyPartitions."""
        if self._session.is_privileged:
            # What a follower fetches again is only what changed.
            return super().values()
        raise ManyPartitions(self._session)

    def all(self) -> list[FetchTarget]:
        return list(super().values())


class FetchSession:
    """The partitions of one client, in the order in which they are read."""

    __slots__ = (
        "changes",
        "created_at",
        "epoch",
        "follower_id",
        "id",
        "proof",
        "targets",
        "used_at",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, *, uses_topic_ids: bool, follower_id: int, now: float) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.uses_topic_ids = uses_topic_ids
        self.follower_id = follower_id
        """The broker that opened it, NO_FOLLOWER for a client."""
        self.proof = Proof()
        """As of when its follower follows the partitions that the session names."""
        self.created_at = now
        self.used_at = now
        self.targets: dict[Key, FetchTarget] = {}
        self.changes: SessionChanges | None = None
        """Of a follower's session, from its first incremental fetch on."""

    @property
    def is_privileged(self) -> bool:
        """Whether it is a follower's."""
        return self.follower_id != NO_FOLLOWER

    def update(self, asked: Iterable[AskedPartition], forgotten: Iterable[Key]) -> None:
        """Add or change the partitions of `asked`, drop `forgotten`."""
        held = self.targets
        changes = self.changes
        for partition in asked:
            known = held.get(partition[:2])
            if known is None:
                known = FetchTarget(*partition)
                held[known.key] = known
                if len(held) > REQUEST_ELEMENTS_PER_TURN_MAX and type(held) is dict:
                    held = self.targets = ManyTargets(held, self)
            else:
                known.update(partition)
            if changes is not None:
                changes.fetch_changed(known)
        for key in forgotten:
            dropped = held.pop(key, None)
            if dropped is not None and changes is not None:
                changes.forget(dropped)

    def changes_for(self, broker_id: int) -> SessionChanges:
        """The changes for the follower `broker_id`; at first that is every partition."""
        if self.changes is None or self.changes.broker_id != broker_id:
            self.close()
            self.changes = SessionChanges(broker_id, self.targets.values())
        return self.changes

    def close(self) -> None:
        """End the session: no fetch continues it."""
        if self.changes is not None:
            self.changes.close()
            self.changes = None

    def move_to_end(self, target: FetchTarget) -> None:
        """Put `target` behind the others, after its records were sent."""
        if self.targets.pop(target.key, None) is not None:
            self.targets[target.key] = target
            if self.changes is not None:
                self.changes.move_to_end(target)


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; it wraps to 1, as 0 opens a session."""
    return 1 if epoch >= EPOCH_MAX else epoch + 1


class FetchSessionCache:
    """The broker's cache of sessions, least recently used first."""

    def __init__(self, *, slots: int, now: Callable[[], float], random_id: Callable[[], int]) -> None:
        """`now` gives seconds that never go back, `random_id` numbers from 1 to 2**31 - 1."""
        self._slots = slots
        self._now = now
        self._random_id = random_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        # Those of each follower, by id of the session: more than one until the older one is evicted.
        self._of_followers: dict[int, dict[int, FetchSession]] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(list(self._sessions.values()))

    @property
    def partition_count(self) -> int:
        """Partitions held by all sessions together."""
        return sum(len(session.targets) for session in self._sessions.values())

    def remove(self, session_id: int) -> None:
        """Forget a session; unknown ones are no error."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()
            if session.is_privileged:
                own = self._of_followers[session.follower_id]
                del own[session_id]
                if not own:
                    del self._of_followers[session.follower_id]

    def get_followed_as_of(self, broker_id: int, topic_id: bytes, partition: int, leader_epoch: int) -> float:
        """As of when the broker followed that partition in that epoch, by its sessions; NEVER if none shows it.

        A partition that a fetch does not name again counts as followed in the epoch that the session last named.
        """
        as_of = NEVER
        for session in self._of_followers.get(broker_id, {}).values():
            target = session.targets.get((topic_id, partition))
            if target is not None and target.current_leader_epoch == leader_epoch:
                as_of = max(as_of, session.proof.as_of)
        return as_of

    def create(
        self, asked: Sequence[AskedPartition], *, uses_topic_ids: bool, follower_id: int = NO_FOLLOWER
    ) -> FetchSession | None:
        """A new session of the requested partitions, or None when the cache is full and nothing may be evicted."""
        now = self._now()
        is_privileged = follower_id != NO_FOLLOWER
        if len(self._sessions) >= self._slots and not self._evict(
            len(asked), now, is_privileged=is_privileged
        ):
            return None
        session_id = self._random_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._random_id()
        session = FetchSession(session_id, uses_topic_ids=uses_topic_ids, follower_id=follower_id, now=now)
        session.update(asked, ())
        self._sessions[session_id] = session
        if is_privileged:
            self._of_followers.setdefault(follower_id, {})[session_id] = session
        return session

    def advance(
        self,
        session_id: int,
        epoch: int,
        asked: Iterable[AskedPartition],
        forgotten: Iterable[Key],
        *,
        version: int,
        follower_id: int = NO_FOLLOWER,
    ) -> FetchSession:
        """Check and update a session for its next incremental fetch.

        A session left without partitions is closed; the caller sees its empty `targets`. Raises
        FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound(
                f"Fetch session {session_id} is not known; start a new one with epoch 0."
            )
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(
                f"Fetch session {session_id} expects epoch {session.epoch}, not {epoch}; start a new one."
            )
        if session.uses_topic_ids != (version >= FIRST_WITH_TOPIC_IDS):
            raise FetchSessionTopicIdError(
                f"Fetch session {session_id} began with topic "
                f"{'ids' if session.uses_topic_ids else 'names'}; start a new one to change that."
            )
        session.update(asked, forgotten)
        if not session.targets:
            self.remove(session_id)
            return session
        session.used_at = self._now()
        session.epoch = next_epoch(epoch)
        if follower_id == session.follower_id:
            session.proof.note_next_fetch()
        self._sessions.move_to_end(session_id)
        return session

    def _evict(self, size: int, now: float, *, is_privileged: bool) -> bool:
        """Make room for a session of `size` partitions; whether that could be done."""
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now - victim.used_at <= EVICTION_AGE_SECONDS:
            beneath = [
                session
                for session in self._sessions.values()
                if (is_privileged and not session.is_privileged)
                or (
                    session.is_privileged == is_privileged
                    and now - session.created_at > EVICTION_AGE_SECONDS
                    and len(session.targets) < size
                )
            ]
            if not beneath:
                return False
            victim = min(beneath, key=lambda session: (session.is_privileged, len(session.targets)))
        self.remove(victim.id)
        self.evictions += 1
        return True
