"""AddOffsetsToTxn: the offsets of a group become part of a transaction.

The partition of the offsets topic that holds the group gets a marker at the end, as the partitions with records do.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import TransactionParts
from odradek.broker.transactions.decisions import ProducerIdentity
from odradek.foundation.errors import CoordinatorNotAvailable
from odradek.foundation.ids import TopicPartition
from odradek.foundation.transaction_errors import InvalidProducerEpoch, ProducerFenced
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC, partition_of
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import AddOffsetsToTxnRequest

_FIRST_VERSION_WITH_FENCED: Final = 2


async def handle(request: AddOffsetsToTxnRequest, context: RequestContext[TransactionParts]) -> Message:
    version = context.header.api_version
    broker = context.broker
    if OFFSETS_TOPIC not in broker.images.current.topics:
        await broker.groups.ensure_topic()
    topic = broker.images.current.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise CoordinatorNotAvailable("the offsets topic is being created; try again")
    partition = TopicPartition(OFFSETS_TOPIC, partition_of(request.group_id, len(topic.partitions)))
    try:
        await broker.transactions.add_partitions(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            (partition,),
        )
    except ProducerFenced as error:
        if version < _FIRST_VERSION_WITH_FENCED:
            raise InvalidProducerEpoch(str(error)) from error
        raise
    return context.response(error_code=0)
