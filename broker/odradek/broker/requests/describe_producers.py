"""DescribeProducers: the producers with a producer id that wrote to a partition, and their open transactions."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import PartitionParts
from odradek.foundation.errors import RequestError
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import DescribeProducersRequest


def handle(request: DescribeProducersRequest, context: RequestContext[PartitionParts]) -> Message:
    topics = [
        {
            "name": topic.name,
            "partitions": [_answer(topic.name, index, context) for index in topic.partition_indexes],
        }
        for topic in request.topics
    ]
    return context.response(topics=topics)


def _answer(topic: str, index: int, context: RequestContext[PartitionParts]) -> dict[str, object]:
    try:
        producers = context.broker.partitions.get(topic, index).log.producers.entries()
    except RequestError as error:
        return {"partition_index": index, **error_fields(error)}
    return {
        "partition_index": index,
        "error_code": 0,
        "active_producers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.timestamp_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.transaction_first_offset,
            }
            for producer in producers
        ],
    }
