"""Topics that a consumer reads and that brokers do not know: just created or moved, or deleted."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.metadata import ClusterInfo
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.limits import CLIENT_TOPIC_GONE_SECONDS


class MissingTopics:
    """The time since which each topic has been missing."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # by topic, in the loop's time

    def deleted(self, topics: Iterable[str], cluster: ClusterInfo, *, now: float) -> str | None:
        """The first of `topics` that has been missing for `CLIENT_TOPIC_GONE_SECONDS`, if any. `cluster` is the newest
        metadata of them, and `now` the loop's time in seconds.
        """
        deleted: str | None = None
        for topic in topics:
            known = cluster.topics.get(topic)
            if known is not None and not isinstance(known.error(), UnknownTopicOrPartition):
                self._since.pop(topic, None)
            elif now - self._since.setdefault(topic, now) >= CLIENT_TOPIC_GONE_SECONDS:
                deleted = deleted or topic
        return deleted
