"""AlterPartitionReassignments (KIP-455, KIP-860): move partitions to other brokers, or cancel such a move."""

from __future__ import annotations

from typing import Final

from odradek.controller.partition_reassignment import PartitionReassignment
from odradek.controller.requests import NewPartitionReassignment
from odradek.foundation.ids import TopicPartition
from odradek.handlers.context import SharedContext
from odradek.handlers.failures import error_fields
from odradek.protocol.messages import Message
from odradek.protocol.requests.cluster import AlterPartitionReassignmentsRequest

# From this version on a request says whether partitions may get more or fewer replicas than they have.
_FACTOR_VERSION: Final = 1


async def handle(request: AlterPartitionReassignmentsRequest, context: SharedContext) -> Message:
    version = context.header.api_version
    wanted = [
        NewPartitionReassignment(
            TopicPartition(topic.name, partition.partition_index),
            None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    may_change_factor = version < _FACTOR_VERSION or request.allow_replication_factor_change
    reassigning = PartitionReassignment(context.broker.leadership, context.broker.images)
    outcomes = iter(await reassigning.reassign(wanted, may_change_factor=may_change_factor))
    responses = []
    for topic in request.topics:
        rows = []
        for partition in topic.partitions:
            outcome = next(outcomes)
            rows.append({"partition_index": partition.partition_index, **error_fields(outcome)})
        responses.append({"name": topic.name, "partitions": rows})
    echoed = {"allow_replication_factor_change": may_change_factor} if version >= _FACTOR_VERSION else {}
    return context.response(error_code=0, error_message=None, responses=responses, **echoed)
