"""Whether a broker may be stopped now: which partitions would have fewer replicas in sync than they need.

For whoever restarts a cluster's brokers one after the other. What counts is what the broker is told by the controller:
in-sync replicas that are live, against min.insync.replicas (never more than there are replicas). Partitions whose only
replica is here are named besides, and do not count: waiting would not change that they are away meanwhile. The same
holds of partitions that need as many replicas as they have and have all of them in sync: they count, and are named
apart, so that who would wait for ever can choose not to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odradek.cluster.image import ClusterImage
from odradek.foundation.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRisk:
    """What a stop of one broker would do to partitions."""

    too_few: tuple[TopicPartition, ...]
    """Would have fewer in sync than min.insync.replicas, or have already."""
    only_here: tuple[TopicPartition, ...]
    """Have no other replica."""
    never_safe: tuple[TopicPartition, ...] = ()
    """Those of `too_few` whose others are all in sync: waiting cannot make them safer."""

    @property
    def can_restart(self) -> bool:
        return not self.too_few


def restart_risk(
    image: ClusterImage, broker_id: int, *, min_insync_replicas: Callable[[str], int]
) -> RestartRisk:
    """What a stop of `broker_id` would do now; `min_insync_replicas` is asked by topic."""
    too_few: list[TopicPartition] = []
    only_here: list[TopicPartition] = []
    never_safe: list[TopicPartition] = []
    for topic in image.topics.values():
        needed: int | None = None
        for partition in topic.partitions:
            if broker_id not in partition.replicas:
                continue
            where = TopicPartition(topic.name, partition.partition)
            if len(partition.replicas) == 1:
                only_here.append(where)
                continue
            if needed is None:
                needed = min_insync_replicas(topic.name)
            others = sum(member != broker_id and member in image.brokers for member in partition.isr)
            settled = len(partition.replicas) - len(partition.adding)
            if others < min(needed, settled):
                too_few.append(where)
                if others >= settled - 1:
                    never_safe.append(where)
    return RestartRisk(too_few=tuple(too_few), only_here=tuple(only_here), never_safe=tuple(never_safe))
