"""Which replica a consumer should read from: one in its own rack, so that records do not cross zones twice (KIP-392).

Asked of the leader only, and only where `replica.selector.class` names Apache Kafka's rack-aware selector. A replica
counts when it is in sync and has the offset asked for; the leader itself is preferred among those of the rack, then
the one that has come furthest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.cluster.image import ImageHolder
from odradek.replication.partition import Partition

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
HERE: Final = -1

# (partition, offset asked for) -> the broker to read from, or HERE.
Nearest = Callable[[Partition, int], int]


def nearest_replica(selector: str | None, images: ImageHolder, rack_id: str) -> Nearest | None:
    """The choice for a client in `rack_id`; None where everybody reads from leaders."""
    if selector != RACK_AWARE_SELECTOR or not rack_id:
        return None
    return partial(_nearest, images, rack_id)


def _nearest(images: ImageHolder, rack_id: str, partition: Partition, fetch_offset: int) -> int:
    followers = partition.followers
    brokers = images.current.brokers
    own = brokers.get(partition.context.broker_id)
    if followers is None or (own is not None and own.rack == rack_id):
        return HERE
    near = [
        follower
        for broker_id, follower in followers.known.items()
        if broker_id in followers.in_sync
        and broker_id in brokers
        and brokers[broker_id].rack == rack_id
        and follower.log_start_offset <= fetch_offset <= follower.end_offset
    ]
    if not near:
        return HERE
    return max(near, key=lambda follower: (follower.end_offset, follower.caught_up_at)).broker_id
