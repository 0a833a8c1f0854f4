"""The follower's end of a fetch session (KIP-227): what the leader knows, and what the next request has to say.

The first request names every partition and opens a session. Later ones name only partitions with another position, and
those that are no longer wanted. When the two ends disagree, or an answer was lost, the next request opens a new
session. A leader whose session cache is full opens none, and each request names everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.broker.replication.follower import FetchPosition
from odradek.foundation.named_tuple import NamedTuple

_INITIAL_EPOCH: Final = 0
_NO_SESSION: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

# The 16 bytes of a topic's id, and the partition.
Key = tuple[bytes, int]


class SessionRequest(NamedTuple):
    """The session's part of a request; the mappings are by topic id."""

    session_id: int
    session_epoch: int
    topics: Mapping[bytes, Sequence[tuple[int, FetchPosition]]]
    forgotten: Mapping[bytes, Sequence[int]]


class FetchSessionHandler:
    """With one leader; it may outlive connections."""

    __slots__ = ("_epoch", "_id", "positions")

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self.positions: dict[Key, FetchPosition] = {}
        """The positions that the leader knows; empty when the next request has to name everything."""

    @property
    def is_new(self) -> bool:
        """Whether the next request has to name everything."""
        return self._epoch == _INITIAL_EPOCH

    def request(self, changed: Mapping[Key, FetchPosition], forgotten: list[Key]) -> SessionRequest:
        """The session's part of the next request. `changed` are all partitions when it `is_new`."""
        if self.is_new:
            self.positions = dict(changed)
            forgotten = []
        else:
            self.positions.update(changed)
            for key in forgotten:
                del self.positions[key]
        topics: dict[bytes, list[tuple[int, FetchPosition]]] = {}
        for (topic_id, index), position in changed.items():
            topics.setdefault(topic_id, []).append((index, position))
        dropped: dict[bytes, list[int]] = {}
        for topic_id, index in forgotten:
            dropped.setdefault(topic_id, []).append(index)
        return SessionRequest(self._id, self._epoch, topics, dropped)

    def answered(self, session_id: int) -> None:
        """The leader answered; `session_id` is its name for the session, 0 for none."""
        if session_id == _NO_SESSION:
            self.discard()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= _EPOCH_MAX else self._epoch + 1

    def restart(self) -> None:
        """An answer was lost: the next request replaces the session."""
        self._epoch = _INITIAL_EPOCH

    def discard(self) -> None:
        """The leader refused the session: the next request opens another."""
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
