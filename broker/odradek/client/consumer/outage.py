"""Brokers and topics that a consumer misses. An outage of brokers is logged once when it begins, then ever more rarely,
and once when it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Set
from typing import Final

from odradek.client.metadata import ClusterInfo
from odradek.foundation.client_limits import (
    CLIENT_OUTAGE_LOG_SECONDS_MAX,
    CLIENT_OUTAGE_LOG_SECONDS_MIN,
    CLIENT_TOPIC_GONE_SECONDS,
)
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition

logger = logging.getLogger(__name__)

COORDINATOR: Final = "coordinator"
"""Stands for the group's coordinator beside the partitions."""


class Outage:
    """The partitions whose leader cannot be reached, and the group's coordinator. The outage ends when each has
    answered.
    """

    def __init__(self) -> None:
        self._away: set[TopicPartition | str] = set()
        self._since = 0.0
        self._news_at = 0.0
        self._news_seconds = 0.0

    def note_failure(
        self, asked: Iterable[TopicPartition | str], failure: OdradekError, *, now: float
    ) -> None:
        """Note a failed request to the leaders of these partitions, or to the coordinator, at this time in seconds."""
        if not self._away:
            self._since = now
            self._news_seconds = CLIENT_OUTAGE_LOG_SECONDS_MIN
            self._news_at = now + self._news_seconds
            logger.warning("%s; trying again until it answers", failure)
        elif now >= self._news_at:
            self._news_seconds = min(self._news_seconds * 2, CLIENT_OUTAGE_LOG_SECONDS_MAX)
            self._news_at = now + self._news_seconds
            logger.warning("still trying after %.0f s: %s", now - self._since, failure)
        self._away.update(asked)

    def note_answer(self, asked: TopicPartition | str, *, now: float) -> None:
        """Note that the leader of this partition, or the coordinator, answered."""
        if asked in self._away:
            self._away.remove(asked)
            self._end_if_over(now)

    def keep(self, partitions: Collection[TopicPartition], *, now: float) -> None:
        """Forget all other partitions, which are no longer read."""
        kept = {asked for asked in self._away if asked in partitions or asked == COORDINATOR}
        if kept != self._away:
            self._away = kept
            self._end_if_over(now)

    def _end_if_over(self, now: float) -> None:
        if not self._away:
            logger.warning("the broker answers again, after %.1f s", now - self._since)


class MissingTopics:
    """The topics that a consumer reads and that brokers do not know, each with the time since which it is missing. They
    were just created or moved, or are deleted.

    `reader` names a group that waits for its topics. Then a line is logged when a topic is missing, and one when it is
    there again: else the group would be silent for ever.
    """

    def __init__(self, *, reader: str | None = None) -> None:
        self._reader = reader
        self._since: dict[str, float] = {}  # by topic, in the loop's time
        self._said: set[str] = set()

    @property
    def deleted(self) -> Set[str]:
        """The topics of which a line was logged that they are missing."""
        return self._said

    def find_deleted(self, topics: Iterable[str], cluster: ClusterInfo, *, now: float) -> str | None:
        """The first of `topics` that has been missing for `CLIENT_TOPIC_GONE_SECONDS`, if any. `cluster` is the newest
        metadata of them, and `now` the loop's time in seconds.
        """
        deleted: str | None = None
        for topic in topics:
            known = cluster.topics.get(topic)
            if known is not None and not isinstance(known.error(), UnknownTopicOrPartition):
                self._note_found(topic)
            elif now - self._since.setdefault(topic, now) >= CLIENT_TOPIC_GONE_SECONDS:
                self._note_deleted(topic)
                deleted = deleted or topic
        return deleted

    def _note_deleted(self, topic: str) -> None:
        if self._reader is not None and topic not in self._said:
            self._said.add(topic)
            logger.warning(
                "%s waits: there is no topic %r, and it is read once it is made", self._reader, topic
            )

    def _note_found(self, topic: str) -> None:
        self._since.pop(topic, None)
        if topic in self._said:
            self._said.remove(topic)
            logger.warning("%s reads topic %r, which is there now", self._reader, topic)
