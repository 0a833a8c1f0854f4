"""The topics that the members of a classic group subscribe to, which only their own metadata says.

The group needs them for the retention and the deletion of offsets alone, so a rebalance does not read them. Metadata
may have 100,000 topics: where `is_long`, a caller that can wait calls `read` in a thread first.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.turn_limits import SUBSCRIPTION_BYTES_READ_AT_ONCE_MAX
from odradek.wire.protocol.consumer import parse_subscription


class Subscriptions:
    """The metadata of all members at one moment. Members that subscribe alike are read once."""

    def __init__(self, metadata: Iterable[bytes] | None) -> None:
        self._unread: Iterable[bytes] | None = None if metadata is None else dict.fromkeys(metadata)
        self._topics: frozenset[str] | None = None

    @classmethod
    def none(cls) -> Subscriptions:
        """Those of members that speak another protocol."""
        return cls(None)

    @property
    def is_long(self) -> bool:
        """Whether `read` takes longer than a turn of the loop may."""
        unread = self._unread
        return unread is not None and sum(map(len, unread)) > SUBSCRIPTION_BYTES_READ_AT_ONCE_MAX

    def read(self) -> None:
        """Read what is not read yet."""
        unread = self._unread
        if unread is None:
            return
        topics: set[str] = set()
        try:
            for metadata in unread:
                for topic in parse_subscription(metadata).topics:
                    topics.add(topic)
        except InvalidRequest:
            self._unread = None
            return
        self._topics, self._unread = frozenset(topics), None

    @property
    def topics(self) -> frozenset[str] | None:
        """None when the subscriptions cannot be read."""
        self.read()
        return self._topics
