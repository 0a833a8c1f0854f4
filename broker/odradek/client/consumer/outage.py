"""What a consumer says while brokers are away: once when it begins, then ever more rarely, and once when it is over."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import CLIENT_OUTAGE_NEWS_SECONDS_MAX, CLIENT_OUTAGE_NEWS_SECONDS_MIN

logger = logging.getLogger(__name__)


class Outage:
    """The partitions whose leader cannot be reached. It is over when each of them was answered for."""

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()
        self._since = 0.0
        self._news_at = 0.0
        self._news_seconds = 0.0

    def failed(self, partitions: Iterable[TopicPartition], failure: OdradekError, *, now: float) -> None:
        """A fetch failed for these partitions at this time, in seconds."""
        if not self._partitions:
            self._since = now
            self._news_seconds = CLIENT_OUTAGE_NEWS_SECONDS_MIN
            self._news_at = now + self._news_seconds
            logger.warning("%s; trying again until it answers", failure)
        elif now >= self._news_at:
            self._news_seconds = min(self._news_seconds * 2, CLIENT_OUTAGE_NEWS_SECONDS_MAX)
            self._news_at = now + self._news_seconds
            logger.warning("still trying after %.0f s: %s", now - self._since, failure)
        self._partitions.update(partitions)

    def answered(self, partition: TopicPartition, *, now: float) -> None:
        """The leader of this partition answered."""
        if partition in self._partitions:
            self._partitions.remove(partition)
            self._end_if_over(now)

    def keep(self, partitions: Collection[TopicPartition], *, now: float) -> None:
        """Only these partitions are read from now on."""
        if not self._partitions.issubset(partitions):
            self._partitions.intersection_update(partitions)
            self._end_if_over(now)

    def _end_if_over(self, now: float) -> None:
        if not self._partitions:
            logger.warning("the broker answers again, after %.1f s", now - self._since)
