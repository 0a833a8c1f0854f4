"""The replica that a consumer should read from: one in its own rack, so that records cross no zone twice (KIP-392).

Only the leader selects, and only where `replica.selector.class` names Apache Kafka's rack-aware selector. A replica
counts when it is in sync and has the fetch offset. Among those of the rack the leader itself is preferred, then the one
with the highest log end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.broker.replication.partition import Partition
from odradek.metadata.image.image import ImageHolder

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
HERE: Final = -1

# (partition, fetch offset) -> the broker to read from, or HERE.
ReplicaSelector = Callable[[Partition, int], int]


def replica_selector(selector: str | None, images: ImageHolder, rack_id: str) -> ReplicaSelector | None:
    """The selector for a client in `rack_id`; None where all clients read from leaders."""
    if selector != RACK_AWARE_SELECTOR or not rack_id:
        return None
    return partial(_nearest, images, rack_id)


def _nearest(images: ImageHolder, rack_id: str, partition: Partition, fetch_offset: int) -> int:
    followers = None if partition.leader is None else partition.leader.followers
    brokers = images.current.brokers
    own = brokers.get(partition.replica.context.broker_id)
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
