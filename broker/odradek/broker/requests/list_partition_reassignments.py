"""ListPartitionReassignments (KIP-455): which partitions are moving to other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import ReplicaParts
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.partition_reassignment import PartitionReassignment
from odradek.metadata.image.image import PartitionImage
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import ListPartitionReassignmentsRequest


async def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext[ReplicaParts]
) -> Message:
    reassigning = PartitionReassignment(context.broker.leadership, context.broker.images)
    async with Leftovers() as kept:
        found = kept.until_end(await reassigning.under_way(_read_topics(request)))
        topics: dict[str, list[tuple[int, PartitionImage]]] = kept.until_end({})
        turn = Turn()
        for where, partition in found.items():
            if turn.is_over():
                await turn.next()
            topics.setdefault(where.topic, []).append((where.partition, partition))
        return await make_in_turns(
            context,
            len(found),
            lambda: context.response(error_code=0, error_message=None, topics=_rows(topics)),
        )


def _read_topics(request: ListPartitionReassignmentsRequest) -> Iterator[TopicPartition] | None:
    if request.topics is None:
        return None
    return (
        TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes
    )


def _rows(topics: Mapping[str, Iterable[tuple[int, PartitionImage]]]) -> Iterator[dict[str, object]]:
    for name, partitions in topics.items():
        rows = (
            {
                "partition_index": number,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
            for number, partition in partitions
        )
        yield {"name": name, "partitions": rows}
