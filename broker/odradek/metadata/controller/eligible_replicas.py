"""Which replicas may lead a partition besides its in-sync set: eligible leader replicas (KIP-966), pure.

While fewer than min.insync.replicas are in sync, the high watermark does not move. So a replica that leaves the set
when it becomes that small, or later, has all that was acknowledged. It stays *eligible* to lead. So when the last
member in sync loses its page cache in a power failure, a replica that has more is known by name. The list is emptied
when enough are in sync again, since the high watermark then moves without those outside. A replica that returned
without its page cache is not eligible either, unless it is the only one left. It is kept as last known, for
administrators and for elections that may lose records.

The rule holds only where the controller never takes min.insync.replicas to be more than the leader does. So it uses the
leader's value: the topic's own, or the broker's, which brokers report when they register. Before a value is reduced,
the replicas that only the greater one made eligible are removed (as in Kafka). Without a leader nothing is
acknowledged, and no replica is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from odradek.metadata.image.image import NO_LEADER, ClusterImage, PartitionImage, ResourceKind

_KEY: Final = "min.insync.replicas"


def min_in_sync(image: ClusterImage, topic: str, leader: int) -> int:
    """min.insync.replicas of a topic as its leader takes it."""
    own: str | None = image.config(ResourceKind.TOPIC, topic).get(_KEY)
    if own is not None:
        return int(own)
    broker = image.brokers.get(leader)
    return int(image.broker_overrides(str(leader)).get(_KEY, 1 if broker is None else broker.min_in_sync))


def decides_eligibility(kind: ResourceKind, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a change of settings changes how many have to be in sync."""
    return kind in (ResourceKind.TOPIC, ResourceKind.BROKER) and before.get(_KEY) != after.get(_KEY)


def is_enough(partition: PartitionImage, *, min_in_sync: int) -> bool:
    """Whether the high watermark moves with this in-sync set, if there is a leader (which counts too)."""
    return len(partition.isr) >= min(min_in_sync, len(partition.replicas) - len(partition.adding))


def remember_eligible(
    before: PartitionImage, after: PartitionImage, *, min_in_sync: int, lost: Collection[int] = ()
) -> PartitionImage:
    """`after`, which follows `before`, with those that are eligible in it.

    `lost` are brokers that returned without what they had: those of them that `after.elr` does not name were taken out.
    """
    if after.leader != NO_LEADER and is_enough(after, min_in_sync=min_in_sync):
        return after._replace(elr=(), last_known_elr=())
    outside = [broker for broker in after.replicas if broker not in after.isr]
    elr = tuple(
        broker for broker in outside if broker in after.elr or (broker in before.isr and broker not in lost)
    )
    had_all = {*before.isr, *before.elr, *before.last_known_elr}
    last_known = tuple(broker for broker in outside if broker in had_all and broker not in elr)
    return after._replace(elr=elr, last_known_elr=last_known)
