"""AlterPartitionReassignments (KIP-455, KIP-860): move partitions to other brokers, or cancel such a move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import ReplicaParts
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.partition_reassignment import PartitionReassignment
from odradek.metadata.controller.requests import NewPartitionReassignment, Outcome
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import AlterPartitionReassignmentsRequest

# From this version on a request says whether partitions may get more or fewer replicas than they have.
_FACTOR_VERSION: Final = 1


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext[ReplicaParts]
) -> Message:
    version = context.header.api_version
    may_change_factor = version < _FACTOR_VERSION or request.allow_replication_factor_change
    async with Leftovers() as kept:
        wanted: list[NewPartitionReassignment] = kept.until_end([])
        turn = Turn()
        for topic in request.topics:
            for partition in topic.partitions:
                if turn.is_over():
                    await turn.next()
                replicas = None if partition.replicas is None else tuple(partition.replicas)
                where = TopicPartition(topic.name, partition.partition_index)
                wanted.append(NewPartitionReassignment(where, replicas))
        reassigning = PartitionReassignment(context.broker.leadership, context.broker.images)
        outcomes = kept.until_end(await reassigning.reassign(wanted, may_change_factor=may_change_factor))
        echoed = {"allow_replication_factor_change": may_change_factor} if version >= _FACTOR_VERSION else {}
        return await make_in_turns(
            context,
            len(outcomes),
            lambda: context.response(
                error_code=0, error_message=None, responses=_rows(request, outcomes), **echoed
            ),
        )


def _rows(
    request: AlterPartitionReassignmentsRequest, outcomes: Iterable[Outcome]
) -> Iterator[dict[str, object]]:
    remaining = iter(outcomes)
    for topic in request.topics:
        rows = (
            {"partition_index": partition.partition_index, **error_fields(next(remaining))}
            for partition in topic.partitions
        )
        yield {"name": topic.name, "partitions": rows}
