"""AddPartitionsToTxn: partitions become part of a transaction, before records are written to them.

Versions 0 to 3 come from clients and have one transaction. Versions 4 and 5 are sent by leaders of partitions
(KIP-890), with many of them. A leader adds a partition for its producer, or only asks whether it is there
(`verify_only`). All partitions of a transaction are added, or none: where a topic is unknown, the others are not
attempted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import TransactionParts
from odradek.broker.transactions.decisions import ProducerIdentity
from odradek.broker.transactions.metadata import TV0, TV2
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.transaction_errors import InvalidProducerEpoch, OperationNotAttempted, ProducerFenced
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Leftovers, Turn
from odradek.network.pending import Pending
from odradek.wire.protocol.errors import NONE, error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_OF_BROKERS: Final = 4
_UNKNOWN: Final = error_code(UnknownTopicOrPartition())
_NOT_ATTEMPTED: Final = error_code(OperationNotAttempted())


class _Outcome(NamedTuple):
    """The errors of one transaction's partitions, by topic and number; each named once, however often it was asked."""

    name: str
    codes: dict[str, dict[int, int]]
    total: int
    otherwise: int
    """The error of those that have none of their own."""


def handle(request: AddPartitionsToTxnRequest, context: RequestContext[TransactionParts]) -> Pending[Message]:
    if context.header.api_version < _FIRST_VERSION_OF_BROKERS:
        return Pending(_of_client(request, context))
    return Pending(_of_brokers(request, context))


async def _of_client(
    request: AddPartitionsToTxnRequest, context: RequestContext[TransactionParts]
) -> Message:
    outcome = await _outcome(
        context,
        request.v3_and_below_transactional_id,
        ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        request.v3_and_below_topics,
        Turn(),
        client_version=TV0,
    )
    async with Leftovers() as kept:
        kept.until_end(outcome.codes)
        return await make_in_turns(
            context,
            outcome.total,
            lambda: context.response(results_by_topic_v3_and_below=_by_topic(outcome)),
        )


async def _of_brokers(
    request: AddPartitionsToTxnRequest, context: RequestContext[TransactionParts]
) -> Message:
    turn = Turn()
    async with Leftovers() as kept:
        outcomes: list[_Outcome] = kept.until_end([])
        for start in range(0, len(request.transactions), REQUEST_ELEMENTS_PER_TURN_MAX):
            together = request.transactions[start : start + REQUEST_ELEMENTS_PER_TURN_MAX]
            found = await asyncio.gather(*(_of_transaction(one, context, turn) for one in together))
            for outcome in found:
                kept.until_end(outcome.codes)
            outcomes += found
        return await make_in_turns(
            context,
            sum(outcome.total for outcome in outcomes),
            lambda: context.response(
                error_code=NONE,
                results_by_transaction=(
                    {"transactional_id": outcome.name, "topic_results": _by_topic(outcome)}
                    for outcome in outcomes
                ),
            ),
        )


async def _of_transaction(
    one: AddPartitionsToTxnTransaction, context: RequestContext[TransactionParts], turn: Turn
) -> _Outcome:
    producer = ProducerIdentity(one.producer_id, one.producer_epoch)
    return await _outcome(
        context,
        one.transactional_id,
        producer,
        one.topics,
        turn,
        client_version=None if one.verify_only else TV2,
    )


async def _outcome(
    context: RequestContext[TransactionParts],
    name: str,
    producer: ProducerIdentity,
    topics: Iterable[AddPartitionsToTxnTopic],
    turn: Turn,
    *,
    client_version: int | None,
) -> _Outcome:
    """Add the partitions, or verify them where no client's version is given."""
    known = context.broker.images.current.topics
    codes: dict[str, dict[int, int]] = {}
    count = 0
    is_known = True
    for topic in topics:
        image = known.get(topic.name)
        end = 0 if image is None else len(image.partitions)
        of_topic = codes.setdefault(topic.name, {})
        for number in topic.partitions:
            if turn.is_over():
                await turn.next()
            is_there = 0 <= number < end
            is_known = is_known and is_there
            of_topic[number] = NONE if is_there else _UNKNOWN
            count += 1
    if not is_known:
        return _Outcome(name, codes, count, _NOT_ATTEMPTED)
    otherwise = NONE
    try:
        if client_version is None:
            await _verify(context, name, producer, codes, turn)
        else:
            async with Leftovers() as kept:
                partitions = kept.until_end([])
                for partition in _partitions(codes):
                    if turn.is_over():
                        await turn.next()
                    partitions.append(partition)
                await context.broker.transactions.add_partitions(
                    name, producer, partitions, client_version=client_version
                )
    except OdradekError as error:
        otherwise = _code(error, context)
    return _Outcome(name, codes, count, otherwise)


async def _verify(
    context: RequestContext[TransactionParts],
    name: str,
    producer: ProducerIdentity,
    codes: dict[str, dict[int, int]],
    turn: Turn,
) -> None:
    """Note the errors of partitions that are not in the transaction. Raises what concerns all of them."""
    check = context.broker.transactions.partition_check(name, producer)
    for topic, number in _partitions(codes):
        if turn.is_over():
            await turn.next()
        outcome = check(TopicPartition(topic, number))
        if outcome is not None:
            codes[topic][number] = _code(outcome, context)


def _partitions(codes: dict[str, dict[int, int]]) -> Iterator[TopicPartition]:
    return (TopicPartition(topic, number) for topic, numbers in codes.items() for number in numbers)


def _code(error: OdradekError, context: RequestContext[TransactionParts]) -> int:
    if isinstance(error, ProducerFenced) and context.header.api_version < _FIRST_VERSION_WITH_FENCED:
        return error_code(InvalidProducerEpoch())
    return error_code(error)


def _by_topic(outcome: _Outcome) -> Iterator[dict[str, object]]:
    otherwise = outcome.otherwise
    for topic, numbers in outcome.codes.items():
        rows = (
            {"partition_index": number, "partition_error_code": code or otherwise}
            for number, code in numbers.items()
        )
        yield {"name": topic, "results_by_partition": rows}
