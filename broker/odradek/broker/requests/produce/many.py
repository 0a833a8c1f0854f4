"""Produce with many partitions, to some of which it appends in each turn of the loop. The thread reads the request and
makes the frame of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import parse_in_thread
from odradek.broker.requests.parts import ProduceParts
from odradek.broker.requests.produce.handler import (
    Late,
    Results,
    answer_later,
    append,
    append_admitted_ones,
    pack_answer,
    refusal_of,
)
from odradek.broker.requests.produce.verification import begin_verifying, verify_partitions
from odradek.broker.requests.produce.waiting import Uncommitted
from odradek.foundation.errors import RequestError
from odradek.foundation.turns import Leftovers, Turn
from odradek.network.pending import Pending
from odradek.wire.protocol.hot.produce import ProducePartitionResult, ProduceRequest, parse_produce_request

# Why a request is refused as a whole, and topics of it.
Checked = tuple[RequestError | None, Mapping[str | bytes, RequestError]]
_NOTHING_DENIED: Final[Mapping[str | bytes, RequestError]] = MappingProxyType({})


async def answer_in_turns(
    frame: memoryview,
    context: RequestContext[ProduceParts],
    *,
    check: Callable[[ProduceRequest], Awaitable[Checked]] | None = None,
) -> bytes | None:
    """The answer to a request with many partitions, some of which are appended to in each turn of the loop.

    `check` gives why all of it or some topics of it are refused. The connection is held, so that the producer's batches
    keep their order.
    """
    in_thread = context.broker.long_work.submit
    header = context.header
    context.connection.hold()
    try:
        request = await in_thread(
            lambda: parse_in_thread(parse_produce_request, header.api_version, frame, header.body_position)
        )
        async with Leftovers() as kept:
            kept.until_end(request.topics)
            return await _answer_many(request, context, kept, check)
    finally:
        context.connection.release()


async def _answer_many(
    request: ProduceRequest,
    context: RequestContext[ProduceParts],
    kept: Leftovers,
    check: Callable[[ProduceRequest], Awaitable[Checked]] | None,
) -> bytes | None:
    in_thread = context.broker.long_work.submit
    refusal, denied = (None, _NOTHING_DENIED) if check is None else await check(request)
    refusal = refusal or await in_thread(lambda: refusal_of(request))
    verification, refusal = begin_verifying(request, context, refusal, denied)
    refused_by_key: Mapping[tuple[str | bytes, int], RequestError] = {}
    if verification.question is not None:
        refused_by_key = await verify_partitions(context, verification, verification.question)
    uncommitted: list[Uncommitted] = kept.until_end([])
    late: list[Late] = kept.until_end([])
    results: Results = kept.until_end([])
    turn = Turn()
    for topic in request.topics:
        found: list[ProducePartitionResult] = kept.until_end([])
        results.append((topic.raw, found))
        for index, records in topic.partitions:
            if turn.is_over():
                await turn.next()
            key = topic.key, index
            why = refusal or denied.get(topic.key) or refused_by_key.get(key)
            token = verification.tokens.get(key)
            found.append(
                append(topic.key, index, records, request.acks, context, why, uncommitted, late, token)
            )
    if late:
        done = await append_admitted_ones(request.acks, context, uncommitted, late)
        for _, found in results:
            for number, result in enumerate(found):
                if turn.is_over():
                    await turn.next()
                found[number] = done.get(id(result), result)
    if uncommitted and request.acks != 0:
        ready: list[Results] = []

        def note(complete: Results) -> None:
            ready.append(complete)

        answer = answer_later(context, request.acks, results, uncommitted, request.timeout_ms, pack=note)
        if isinstance(answer, Pending):
            await answer
        (results,) = ready
    if request.acks == 0:
        return pack_answer(context, request.acks, results)
    complete = results
    return await in_thread(lambda: pack_answer(context, request.acks, complete))
