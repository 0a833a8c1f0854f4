"""ListPartitionReassignments (KIP-455): which partitions are moving to other brokers."""

from __future__ import annotations

from typing import Any, Final

from odradek.controller.reassigning import Reassigning
from odradek.foundation.ids import TopicPartition
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.LIST_PARTITION_REASSIGNMENTS
VERSIONS: Final = (0, 0)


def handle(request: Any, context: Any) -> Any:
    wanted = None
    if request.topics is not None:
        wanted = [
            TopicPartition(topic.name, number)
            for topic in request.topics
            for number in topic.partition_indexes
        ]
    reassigning = Reassigning(context.broker.leadership, context.broker.images)
    topics: dict[str, list[dict[str, Any]]] = {}
    for where, partition in reassigning.under_way(wanted):
        topics.setdefault(where.topic, []).append(
            {
                "partition_index": where.partition,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
        )
    return messages.response(
        API,
        context.header.api_version,
        error_code=0,
        error_message=None,
        topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    )
