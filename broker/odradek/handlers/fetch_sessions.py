"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes.

A session keeps for each partition what the client asked and what it was last told. An incremental answer
holds only the partitions with records, an error, or news of their offsets. Partitions that gave records
move to the end of the session's order, so that with a small byte limit the others have their turn first.

The cache is bounded (max.incremental.fetch.session.cache.slots). A new session takes the place of one not
used for two minutes, or else of a smaller one that has lived as long; otherwise the client gets session id
0 and sends full requests. Followers' sessions are privileged: they take the place of any client's, and no client
takes theirs while they use it; which of their partitions are worth a look is kept in `fetch_news`. What it
leaves out: reading, and bytes on the wire.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from odradek.foundation.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from odradek.handlers.fetch_news import SessionNews
from odradek.replication.confirmation import NEVER, Proof
from odradek.replication.partition import Partition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_SESSION: Final = 0
EPOCH_MAX: Final = 2**31 - 1
EVICTION_AGE_SECONDS: Final = 120.0
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
NO_FOLLOWER: Final = -1


# A topic's name or the 16 bytes of its id, and the partition.
Key = tuple[str | bytes, int]


class Target:
    """One partition that a fetch asks for, and what the session's client was last told of it."""

    __slots__ = (
        "bytes_max",
        "current_leader_epoch",
        "fetch_offset",
        "follower_log_start",
        "high_watermark",
        "index",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "settled_epoch",
        "topic",
    )

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        bytes_max: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        follower_log_start: int = -1,
    ) -> None:
        self.topic = topic
        self.index = index
        self.key: Key = (topic, index)
        self.fetch_offset = fetch_offset
        self.bytes_max = bytes_max
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.follower_log_start = follower_log_start
        self.partition: Partition | None = None
        self.settled_epoch = -1
        """The leader epoch in which this very question of a follower was found to fit the log."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def update(self, newer: Target) -> None:
        """Take over what the client asks now; what it was told stays."""
        self.fetch_offset = newer.fetch_offset
        self.bytes_max = newer.bytes_max
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.follower_log_start = newer.follower_log_start
        self.settled_epoch = -1


class Session:
    """The partitions of one client, in the order in which they have their turn."""

    __slots__ = (
        "created_at",
        "epoch",
        "follower_id",
        "id",
        "news",
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
        """As of when its follower follows what the session names."""
        self.created_at = now
        self.used_at = now
        self.targets: dict[Key, Target] = {}
        self.news: SessionNews | None = None
        """Of a follower's session, from its first incremental fetch on."""

    @property
    def is_privileged(self) -> bool:
        """Whether it is a follower's."""
        return self.follower_id != NO_FOLLOWER

    def replace(self, targets: Iterable[Target]) -> None:
        """Hold exactly `targets`."""
        self.targets = {target.key: target for target in targets}

    def update(self, targets: Iterable[Target], forgotten: Iterable[Key]) -> None:
        """Add or change `targets`, drop `forgotten`."""
        held = self.targets
        for target in targets:
            known = held.get(target.key)
            if known is None:
                known = held[target.key] = target
            else:
                known.update(target)
            if self.news is not None:
                self.news.named(known)
        for key in forgotten:
            dropped = held.pop(key, None)
            if dropped is not None and self.news is not None:
                self.news.forget(dropped)

    def news_for(self, broker_id: int) -> SessionNews:
        """What the follower `broker_id` has to be told; all partitions are looked at once."""
        if self.news is None or self.news.broker_id != broker_id:
            self.close()
            self.news = SessionNews(broker_id, self.targets.values())
        return self.news

    def close(self) -> None:
        """Nobody asks any more."""
        if self.news is not None:
            self.news.close()
            self.news = None

    def to_the_end(self, target: Target) -> None:
        """Records were sent for `target`: the others come first next time."""
        if self.targets.pop(target.key, None) is not None:
            self.targets[target.key] = target
            if self.news is not None:
                self.news.to_the_end(target)


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; it wraps to 1, as 0 opens a session."""
    return 1 if epoch >= EPOCH_MAX else epoch + 1


class FetchSessions:
    """The broker's cache of sessions, least recently used first."""

    def __init__(self, *, slots: int, now: Callable[[], float], random_id: Callable[[], int]) -> None:
        """`now` gives seconds that never go back, `random_id` numbers from 1 to 2**31 - 1."""
        self._slots = slots
        self._now = now
        self._random_id = random_id
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        # Those of each follower, by id of the session: more than one while an older one has not been given up.
        self._of_followers: dict[int, dict[int, Session]] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
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

    def followed_as_of(self, broker_id: int, topic_id: bytes, partition: int, leader_epoch: int) -> float:
        """As of when the broker followed that partition in that epoch, by its sessions; NEVER if none shows it.

        A partition that a session does not name again counts as followed in the epoch that it was last named with.
        """
        as_of = NEVER
        for session in self._of_followers.get(broker_id, {}).values():
            target = session.targets.get((topic_id, partition))
            if target is not None and target.current_leader_epoch == leader_epoch:
                as_of = max(as_of, session.proof.as_of)
        return as_of

    def create(
        self, targets: list[Target], *, uses_topic_ids: bool, follower_id: int = NO_FOLLOWER
    ) -> Session | None:
        """A new session holding `targets`, or None when the cache is full of better ones."""
        now = self._now()
        is_privileged = follower_id != NO_FOLLOWER
        if len(self._sessions) >= self._slots and not self._evict(
            len(targets), now, is_privileged=is_privileged
        ):
            return None
        session_id = self._random_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._random_id()
        session = Session(session_id, uses_topic_ids=uses_topic_ids, follower_id=follower_id, now=now)
        session.replace(targets)
        self._sessions[session_id] = session
        if is_privileged:
            self._of_followers.setdefault(follower_id, {})[session_id] = session
        return session

    def advance(
        self,
        session_id: int,
        epoch: int,
        targets: Iterable[Target],
        forgotten: Iterable[Key],
        *,
        version: int,
        follower_id: int = NO_FOLLOWER,
    ) -> Session:
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
        if session.uses_topic_ids != (version >= FIRST_VERSION_WITH_TOPIC_IDS):
            raise FetchSessionTopicIdError(
                f"Fetch session {session_id} began with topic "
                f"{'ids' if session.uses_topic_ids else 'names'}; start a new one to change that."
            )
        session.update(targets, forgotten)
        if not session.targets:
            self.remove(session_id)
            return session
        session.used_at = self._now()
        session.epoch = next_epoch(epoch)
        if follower_id == session.follower_id:
            session.proof.asked_again()
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
