"""AddPartitionsToTxn: partitions become part of a transaction, before records are written to them.

Versions 0 to 3 come from clients and have one transaction. Versions 4 and 5 are sent by leaders of partitions
(KIP-890), with many of them. A leader adds a partition for its producer, or only asks whether it is there
(`verify_only`). All partitions of a transaction are added, or none: where a topic is unknown, the others are not
attempted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.foundation.errors import (
    InvalidProducerEpoch,
    OdradekError,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicPartition, flat
from odradek.foundation.transaction_errors import OperationNotAttempted
from odradek.handlers.context import RequestContext
from odradek.protocol.errors import NONE, error_code
from odradek.protocol.messages import Message
from odradek.protocol.requests.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from odradek.transactions.decisions import ProducerIdentity
from odradek.transactions.metadata import TV0, TV2
from odradek.transport.pending import Pending

_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_OF_BROKERS: Final = 4

Codes = Mapping[TopicPartition, int]


def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> Pending[Message]:
    if context.header.api_version < _FIRST_VERSION_OF_BROKERS:
        return Pending(_of_client(request, context))
    return Pending(_of_brokers(request, context))


async def _of_client(request: AddPartitionsToTxnRequest, context: RequestContext) -> Message:
    partitions = flat((topic.name, topic.partitions) for topic in request.v3_and_below_topics)
    codes = await _add(
        context,
        request.v3_and_below_transactional_id,
        ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        partitions,
        client_version=TV0,
    )
    return context.response(results_by_topic_v3_and_below=_by_topic(partitions, codes))


async def _of_brokers(request: AddPartitionsToTxnRequest, context: RequestContext) -> Message:
    results = await asyncio.gather(*(_of_transaction(one, context) for one in request.transactions))
    return context.response(error_code=NONE, results_by_transaction=results)


async def _of_transaction(
    one: AddPartitionsToTxnTransaction, context: RequestContext
) -> Mapping[str, object]:
    partitions = flat((topic.name, topic.partitions) for topic in one.topics)
    producer = ProducerIdentity(one.producer_id, one.producer_epoch)
    if one.verify_only:
        codes = _verify(context, one.transactional_id, producer, partitions)
    else:
        codes = await _add(context, one.transactional_id, producer, partitions, client_version=TV2)
    return {"transactional_id": one.transactional_id, "topic_results": _by_topic(partitions, codes)}


async def _add(
    context: RequestContext,
    name: str,
    producer: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    *,
    client_version: int,
) -> Codes:
    unknown = _unknown(context, partitions)
    if unknown:
        others = error_code(OperationNotAttempted())
        return {partition: unknown.get(partition, others) for partition in partitions}
    try:
        await context.broker.transactions.add_partitions(
            name, producer, partitions, client_version=client_version
        )
    except OdradekError as error:
        return dict.fromkeys(partitions, _code(error, context))
    return dict.fromkeys(partitions, NONE)


def _verify(
    context: RequestContext, name: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition]
) -> Codes:
    unknown = _unknown(context, partitions)
    if unknown:
        others = error_code(OperationNotAttempted())
        return {partition: unknown.get(partition, others) for partition in partitions}
    try:
        outcomes = context.broker.transactions.check_partitions(name, producer, partitions)
    except OdradekError as error:
        return dict.fromkeys(partitions, _code(error, context))
    return {
        partition: NONE if outcome is None else _code(outcome, context)
        for partition, outcome in zip(partitions, outcomes, strict=True)
    }


def _unknown(context: RequestContext, partitions: Sequence[TopicPartition]) -> Codes:
    topics = context.broker.images.current.topics
    missing = error_code(UnknownTopicOrPartition())
    return {
        one: missing
        for one in partitions
        if one.topic not in topics or not 0 <= one.partition < len(topics[one.topic].partitions)
    }


def _code(error: OdradekError, context: RequestContext) -> int:
    if isinstance(error, ProducerFenced) and context.header.api_version < _FIRST_VERSION_WITH_FENCED:
        return error_code(InvalidProducerEpoch())
    return error_code(error)


def _by_topic(partitions: Sequence[TopicPartition], codes: Codes) -> list[dict[str, object]]:
    topics: dict[str, list[dict[str, int]]] = {}
    for one in partitions:
        topics.setdefault(one.topic, []).append(
            {"partition_index": one.partition, "partition_error_code": codes[one]}
        )
    return [{"name": name, "results_by_partition": results} for name, results in topics.items()]
