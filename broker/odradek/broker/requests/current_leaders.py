"""The leaders that a response names for partitions that another broker leads (KIP-951).

The client then sends to the leader at once, without a Metadata request. A leader without the listener of the request
is not named. `wire.protocol.hot.current_leaders` writes the bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from odradek.metadata.image.image import ClusterImage, TopicImage
from odradek.wire.protocol.hot.current_leaders import CurrentLeaders


def current_leaders(
    image: ClusterImage, listener_name: str, partitions: Iterable[tuple[str | bytes, int]]
) -> CurrentLeaders:
    """The leaders of `partitions`, each a topic's name or the 16 bytes of its id and an index."""
    leaders: dict[tuple[str | bytes, int], tuple[int, int]] = {}
    for topic, index in partitions:
        known = _topic(image, topic)
        if known is None or not 0 <= index < len(known.partitions):
            continue
        partition = known.partitions[index]
        broker = image.brokers.get(partition.leader)
        if broker is not None and listener_name in broker.endpoints:
            leaders[topic, index] = (partition.leader, partition.leader_epoch)
    nodes = [
        (broker_id, *image.brokers[broker_id].endpoints[listener_name], image.brokers[broker_id].rack)
        for broker_id in sorted({leader for leader, _ in leaders.values()})
    ]
    return CurrentLeaders(leaders, nodes)


def _topic(image: ClusterImage, topic: str | bytes) -> TopicImage | None:
    if isinstance(topic, bytes):
        return image.topics_by_id.get(uuid.UUID(bytes=topic))
    return image.topics.get(topic)
