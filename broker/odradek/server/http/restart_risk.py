"""Whether a broker may be stopped now: which partitions would have fewer replicas in sync than they need.

For a rolling restart. It compares live in-sync replicas, as the controller reports them, with min.insync.replicas
(never more than there are replicas). Partitions with their only replica on this broker are listed separately, and do
not count: to wait would not keep them available. Partitions that need as many replicas as they have, and have all of
them in sync, do count. They are listed separately too, so that a caller can choose not to wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.image import ClusterImage


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRisk:
    """The effect of a broker's stop on partitions."""

    too_few: tuple[TopicPartition, ...]
    """Partitions with fewer replicas in sync than min.insync.replicas, now or after the stop."""
    only_here: tuple[TopicPartition, ...]
    """Partitions without another replica."""
    never_safe: tuple[TopicPartition, ...] = ()
    """The partitions of `too_few` with all other replicas in sync: waiting cannot make them safer."""

    @property
    def can_restart(self) -> bool:
        return not self.too_few


def restart_risk(
    image: ClusterImage, broker_id: int, *, min_insync_replicas: Callable[[str], int]
) -> RestartRisk:
    """The effect of a stop of `broker_id` now; `min_insync_replicas` gives the setting of a topic."""
    too_few: list[TopicPartition] = []
    only_here: list[TopicPartition] = []
    never_safe: list[TopicPartition] = []
    live = frozenset(image.brokers)
    for topic in image.topics.values():
        needed: int | None = None
        for partition in topic.partitions:
            replicas, in_sync = partition.replicas, partition.isr
            if broker_id not in replicas:
                continue
            if len(replicas) == 1:
                only_here.append(TopicPartition(topic.name, partition.partition))
                continue
            if needed is None:
                needed = min_insync_replicas(topic.name)
            # A cluster has tens of thousands of partitions, and nearly all of them have every replica in sync.
            alive = in_sync if live.issuperset(in_sync) else tuple(live.intersection(in_sync))
            others = len(alive) - (broker_id in alive)
            settled = len(replicas) - len(partition.adding)
            if others < min(needed, settled):
                where = TopicPartition(topic.name, partition.partition)
                too_few.append(where)
                if others >= settled - 1:
                    never_safe.append(where)
    return RestartRisk(too_few=tuple(too_few), only_here=tuple(only_here), never_safe=tuple(never_safe))


class LatestRisk:
    """Caches the risk for the latest image: callers ask every few seconds, and the image rarely changes."""

    def __init__(self) -> None:
        self._found: tuple[ClusterImage, object, RestartRisk] | None = None

    def of(
        self,
        image: ClusterImage,
        settings: object,
        broker_id: int,
        *,
        min_insync_replicas: Callable[[str], int],
    ) -> RestartRisk:
        """As `restart_risk`; `min_insync_replicas` depends on `settings` and the image alone."""
        found = self._found
        # Both are immutable values.
        if found is None or found[0] is not image or found[1] is not settings:
            risk = restart_risk(image, broker_id, min_insync_replicas=min_insync_replicas)
            found = self._found = (image, settings, risk)
        return found[2]
