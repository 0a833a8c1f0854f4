"""The follower's end of a fetch session (KIP-227): what the leader has been told, and what a request still has to say.

The first request names every partition and opens a session; those after it name only partitions that go on from
another place, and those that are not wanted any more. When the two ends disagree, or an answer was lost, the next
request begins anew. A leader whose cache of sessions is full gives none, and each request names everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.replication.follower import FetchPosition

_INITIAL_EPOCH: Final = 0
_NO_SESSION: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

# The 16 bytes of a topic's id, and the partition.
Key = tuple[bytes, int]


class SessionRequest(NamedTuple):
    """What a session decides of the next request; the mappings are by topic id."""

    session_id: int
    session_epoch: int
    topics: Mapping[bytes, Sequence[tuple[int, FetchPosition]]]
    forgotten: Mapping[bytes, Sequence[int]]


class FetchSession:
    """With one leader, over one connection after the other."""

    __slots__ = ("_epoch", "_id", "told")

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self.told: dict[Key, FetchPosition] = {}
        """What the session holds, as far as was asked; empty when the next request has to name everything."""

    @property
    def is_new(self) -> bool:
        """Whether the next request has to name everything."""
        return self._epoch == _INITIAL_EPOCH

    def request(self, changed: Mapping[Key, FetchPosition], forgotten: list[Key]) -> SessionRequest:
        """The session's part of the next request. `changed` are all partitions when it `is_new`."""
        if self.is_new:
            self.told = dict(changed)
            forgotten = []
        else:
            self.told.update(changed)
            for key in forgotten:
                del self.told[key]
        topics: dict[bytes, list[tuple[int, FetchPosition]]] = {}
        for (topic_id, index), position in changed.items():
            topics.setdefault(topic_id, []).append((index, position))
        dropped: dict[bytes, list[int]] = {}
        for topic_id, index in forgotten:
            dropped.setdefault(topic_id, []).append(index)
        return SessionRequest(self._id, self._epoch, topics, dropped)

    def answered(self, session_id: int) -> None:
        """The leader took the request; `session_id` is what it calls the session, 0 for none."""
        if session_id == _NO_SESSION:
            self._id = _NO_SESSION
            self._epoch = _INITIAL_EPOCH
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= _EPOCH_MAX else self._epoch + 1

    def broke_off(self) -> None:
        """An answer was lost, or the leader knows nothing of the session: the next request replaces it."""
        self._epoch = _INITIAL_EPOCH

    def refused(self) -> None:
        """The leader does not have the session."""
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
