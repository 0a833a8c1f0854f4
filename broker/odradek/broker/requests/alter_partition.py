"""AlterPartition (KIP-497, KIP-841, KIP-903): in-sync sets that leaders propose.

Served by controllers, to brokers alone. A deleted topic, or one with another id, is an error of that topic. A stale
broker epoch of the leader is an error of the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ReplicaParts
from odradek.foundation.errors import IneligibleReplica, RequestError, UnknownTopicId
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller.leadership import AlterPartitionData
from odradek.metadata.image.image import BrokerImage, PartitionImage
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import AlterPartitionRequest, PartitionData

# From this version on each member of the set comes with the epoch of its registration.
_EPOCHS_VERSION: Final = 3
_ANY_EPOCH: Final = -1


async def handle(request: AlterPartitionRequest, context: RequestContext[ReplicaParts]) -> Message:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    version = context.header.api_version
    image = context.broker.images.current
    answers: dict[UUID | None, list[dict[str, object]]] = {topic.topic_id: [] for topic in request.topics}
    proposals: list[AlterPartitionData] = []
    ids: list[UUID | None] = []
    for topic in request.topics:
        known = None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)
        for partition in topic.partitions:
            number = partition.partition_index
            try:
                if known is None:
                    raise UnknownTopicId(f"No topic has the id {topic.topic_id}.")
                isr = _members(partition, version, brokers=image.brokers)
            except RequestError as error:
                answers[topic.topic_id].append({"partition_index": number, "error_code": error_code(error)})
                continue
            where = TopicPartition(known.name, number)
            proposals.append(
                AlterPartitionData(where, partition.leader_epoch, partition.partition_epoch, isr)
            )
            ids.append(topic.topic_id)
    outcomes = await context.broker.leadership.alter_in_sync_sets(
        request.broker_id, broker_epoch=request.broker_epoch, proposals=proposals
    )
    for topic_id, proposal, outcome in zip(ids, proposals, outcomes, strict=True):
        answers[topic_id].append(_answer(proposal.topic_partition.partition, outcome))
    return context.response(
        error_code=0,
        topics=[{"topic_id": topic_id, "partitions": rows} for topic_id, rows in answers.items()],
    )


def _members(
    partition: PartitionData, version: int, *, brokers: Mapping[int, BrokerImage]
) -> tuple[int, ...]:
    """The proposed set. Raises IneligibleReplica for a member that has registered again since it was seen in sync."""
    if version < _EPOCHS_VERSION:
        return tuple(partition.new_isr)
    for member in partition.new_isr_with_epochs:
        broker = brokers.get(member.broker_id)
        if member.broker_epoch != _ANY_EPOCH and (broker is None or broker.epoch != member.broker_epoch):
            raise IneligibleReplica(
                f"broker {member.broker_id} is proposed with the epoch {member.broker_epoch} and has "
                f"{'none' if broker is None else broker.epoch}."
            )
    return tuple(member.broker_id for member in partition.new_isr_with_epochs)


def _answer(number: int, outcome: PartitionImage | RequestError) -> dict[str, object]:
    if isinstance(outcome, RequestError):
        return {"partition_index": number, "error_code": error_code(outcome)}
    return {
        "partition_index": number,
        "error_code": 0,
        "leader_id": outcome.leader,
        "leader_epoch": outcome.leader_epoch,
        "isr": outcome.isr,
        "partition_epoch": outcome.partition_epoch,
    }
