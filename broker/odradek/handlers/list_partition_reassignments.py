"""ListPartitionReassignments (KIP-455): which partitions are moving to other brokers."""

from __future__ import annotations

from odradek.controller.partition_reassignment import PartitionReassignment
from odradek.foundation.ids import TopicPartition
from odradek.handlers.context import SharedContext
from odradek.protocol.messages import Message
from odradek.protocol.requests.cluster import ListPartitionReassignmentsRequest


def handle(request: ListPartitionReassignmentsRequest, context: SharedContext) -> Message:
    wanted = None
    if request.topics is not None:
        wanted = [
            TopicPartition(topic.name, number)
            for topic in request.topics
            for number in topic.partition_indexes
        ]
    reassigning = PartitionReassignment(context.broker.leadership, context.broker.images)
    topics: dict[str, list[dict[str, object]]] = {}
    for where, partition in reassigning.under_way(wanted):
        topics.setdefault(where.topic, []).append(
            {
                "partition_index": where.partition,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
        )
    return context.response(
        error_code=0,
        error_message=None,
        topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    )
