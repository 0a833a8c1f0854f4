"""Produce: batches into partitions, each answered for itself.

With one replica a record is committed once its log holds it. So acks=1 and acks=all are answered at once, or after the
flush that flush.messages asks for. With other in-sync replicas acks=all waits for them (`waiting`). acks=0 gets
no answer. When such a request fails the connection is closed, as Kafka does, so that the client refreshes its metadata.

A batch whose records have to be read, and may be many, is checked in a thread first (`storage.append_rules.LongWork`).
The first batch of a transaction waits for the transaction coordinator (`verification`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, cast

from odradek.broker.replication.partition import Partition
from odradek.broker.replication.transaction_verifier import Question
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.current_leaders import current_leaders
from odradek.broker.requests.loading import for_many
from odradek.broker.requests.parts import ProduceParts
from odradek.broker.requests.produce.refusals import (
    FIRST_WITH_ZSTD,
    build_failed_result,
    check_internal,
    frame_error,
)
from odradek.broker.requests.produce.verification import (
    NOTHING_TO_VERIFY,
    Verification,
    begin_verifying,
    verify_partitions,
)
from odradek.broker.requests.produce.waiting import Uncommitted, when_flushed, when_held_by_all
from odradek.foundation.errors import InvalidRequiredAcks, RequestError
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.transaction_errors import TransactionalIdAuthorizationFailed
from odradek.network.pending import Pending
from odradek.storage.append_rules import LongWork
from odradek.storage.verification import VerificationToken
from odradek.wire.protocol.hot.elements import TooManyElements
from odradek.wire.protocol.hot.produce import (
    FIRST_FLEXIBLE,
    FIRST_WITH_LEADERS,
    NOT_LEADER,
    OnePartition,
    ProducePartitionResult,
    ProduceRequest,
    key_of,
    pack_one_partition,
    pack_produce_response,
    parse_one_partition,
    parse_produce_request,
)
from odradek.wire.records.batch import is_transactional

logger = logging.getLogger(__name__)

_ACKS_ALLOWED: Final = (-1, 0, 1)
# A named tuple's own constructor takes three times as long, for every batch.
_new_tuple = tuple.__new__

Answer = bytes | None | Pending[bytes | None]
# The results of each topic, by its bytes in the request.
Results = list[tuple[bytes, list[ProducePartitionResult]]]


class Late(NamedTuple):
    """A batch that a thread looks at before it is appended, and the result that is to be replaced by its own."""

    key: str | bytes
    number: int
    records: memoryview | None
    partition: Partition
    token: VerificationToken | None
    long: LongWork
    placeholder: ProducePartitionResult


def handle(frame: memoryview, context: RequestContext[ProduceParts]) -> Answer:
    header = context.header
    version = header.api_version
    if version >= FIRST_FLEXIBLE:
        # The usual request is read in a third of the time.
        one = parse_one_partition(version, frame, header.body_position)
        if one is not None:
            return answer_one(one, context)
    try:
        request = parse_produce_request(version, frame, header.body_position)
    except TooManyElements:
        answer = for_many("produce.many").answer_in_turns(frame, context)
        return Pending(cast("Awaitable[bytes | None]", answer))
    return answer_request(request, context)


def answer_request(
    request: ProduceRequest,
    context: RequestContext[ProduceParts],
    *,
    refusal: RequestError | None = None,
    denied: Mapping[str | bytes, RequestError] = MappingProxyType({}),
) -> Answer:
    """Append to each partition. All are refused with `refusal`, and those of the topics `denied` with theirs."""
    refusal = refusal or refusal_of(request)
    verification = NOTHING_TO_VERIFY
    if refusal is None and request.transactional_id is not None:
        verification, refusal = begin_verifying(request, context, refusal, denied)
    refused_by_key = {
        (topic.key, index): denied[topic.key]
        for topic in (request.topics if denied else ())
        if topic.key in denied
        for index, _ in topic.partitions
    }
    if verification.question is not None:
        # What the producer has sent behind this must not overtake it.
        context.connection.hold()
        return Pending(
            _verify_and_append(request, context, verification, verification.question, refused_by_key)
        )
    return _append_all(request, context, verification, refusal=refusal, refused_by_key=refused_by_key)


async def _verify_and_append(
    request: ProduceRequest,
    context: RequestContext[ProduceParts],
    verification: Verification,
    question: Question,
    refused_by_key: Mapping[tuple[str | bytes, int], RequestError],
) -> bytes | None:
    """Append what the transaction coordinator confirms."""
    try:
        by_key = {**await verify_partitions(context, verification, question), **refused_by_key}
        answer = _append_all(request, context, verification, refused_by_key=by_key)
    finally:
        context.connection.release()
    return await answer if isinstance(answer, Pending) else answer


def _append_all(
    request: ProduceRequest,
    context: RequestContext[ProduceParts],
    verification: Verification,
    *,
    refusal: RequestError | None = None,
    refused_by_key: Mapping[tuple[str | bytes, int], RequestError] = MappingProxyType({}),
) -> Answer:
    """Append to each partition, unless all are refused or this one is."""
    acks = request.acks
    tokens = verification.tokens
    uncommitted: list[Uncommitted] = []
    late: list[Late] = []
    results = [
        (
            topic.raw,
            [
                append(
                    topic.key,
                    index,
                    records,
                    acks,
                    context,
                    refusal or (refused_by_key.get((topic.key, index)) if refused_by_key else None),
                    uncommitted,
                    late,
                    tokens.get((topic.key, index)) if tokens else None,
                )
                for index, records in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return _answer_all(context, acks, results, uncommitted, late, request.timeout_ms)


def answer_one(one: OnePartition, context: RequestContext[ProduceParts]) -> Answer:
    """As `answer_request`, for records of one partition without a transactional id."""
    acks, raw, key, index, records, timeout_ms = one
    # Nearly no request is refused, and asking why costs a thirtieth of answering it.
    is_refused = acks not in _ACKS_ALLOWED or is_transactional(records)
    refusal = refusal_of_batches(acks, None, (records,)) if is_refused else None
    uncommitted: list[Uncommitted] = []
    late: list[Late] = []
    result = append(key, index, records, acks, context, refusal, uncommitted, late)
    if uncommitted or late or result[1] or acks == 0:
        return _answer_all(context, acks, [(raw, [result])], uncommitted, late, timeout_ms)
    return pack_one_partition(context.header.correlation_id, raw, index, result[2], result[3], result[4])


def _answer_all(
    context: RequestContext[ProduceParts],
    acks: int,
    results: Results,
    uncommitted: list[Uncommitted],
    late: list[Late],
    timeout_ms: int,
) -> Answer:
    if late:
        # What the client has sent behind this must not overtake it: so its batches keep their order.
        context.connection.hold()
        return Pending(_append_late(context, acks, results, uncommitted, late, timeout_ms))
    if uncommitted and acks != 0:
        return answer_later(context, acks, results, uncommitted, timeout_ms)
    return pack_answer(context, acks, results)


async def _append_late(
    context: RequestContext[ProduceParts],
    acks: int,
    results: Results,
    uncommitted: list[Uncommitted],
    late: list[Late],
    timeout_ms: int,
) -> bytes | None:
    """Append the batches that a thread has to look at first, one after the other."""
    try:
        done = await append_admitted_ones(acks, context, uncommitted, late)
    finally:
        context.connection.release()
    complete = [(raw, [done.get(id(result), result) for result in found]) for raw, found in results]
    answer = _answer_all(context, acks, complete, uncommitted, [], timeout_ms)
    return await answer if isinstance(answer, Pending) else answer


async def append_admitted_ones(
    acks: int, context: RequestContext[ProduceParts], uncommitted: list[Uncommitted], late: list[Late]
) -> dict[int, ProducePartitionResult]:
    """The results of the batches that a thread looks at, by the id of what each replaces."""
    return {id(one.placeholder): await _append_admitted(one, acks, context, uncommitted) for one in late}


async def _append_admitted(
    one: Late, acks: int, context: RequestContext[ProduceParts], uncommitted: list[Uncommitted]
) -> ProducePartitionResult:
    """The result of a batch once a thread has admitted it; again where the topic's settings have changed since."""
    long = one.long
    while True:
        try:
            admitted = await context.broker.long_work.submit(long.work)
        except Exception as error:
            return build_failed_result(one.number, error, context, one.key, one.partition, one.records)
        one.partition.log.admit_next(admitted)
        again: list[Late] = []
        result = append(one.key, one.number, one.records, acks, context, None, uncommitted, again, one.token)
        if not again:
            return result
        long = again[0].long


def answer_later(
    context: RequestContext[ProduceParts],
    acks: int,
    topics: Results,
    uncommitted: list[Uncommitted],
    timeout_ms: int,
    *,
    pack: Callable[[Results], bytes | None] | None = None,
) -> Answer:
    """The answer once every partition's records are as safe as the request demands, or cannot be.

    `pack` makes the frame of the results, which else is made at once.
    """

    def answer(failures: Mapping[int, Exception]) -> bytes | None:
        if not failures:
            return pack_answer(context, acks, topics) if pack is None else pack(topics)
        failed = {
            id(one.result): build_failed_result(
                one.result.partition, failures[number], context, one.key, one.partition, one.records
            )
            for number, one in enumerate(uncommitted)
            if number in failures
        }
        answered = [(raw, [failed.get(id(result), result) for result in results]) for raw, results in topics]
        return pack_answer(context, acks, answered) if pack is None else pack(answered)

    if acks == -1 and any(one.partition.has_followers for one in uncommitted):
        return when_held_by_all(uncommitted, context, timeout_ms=timeout_ms, answer=answer)
    if any(one.partition.is_flush_due(one.last_offset) for one in uncommitted):
        return Pending(when_flushed(uncommitted, answer=answer))
    return answer({})


def refusal_of(request: ProduceRequest) -> RequestError | None:
    """Why the request is refused as a whole; None where it is not."""
    return refusal_of_batches(
        request.acks,
        request.transactional_id,
        (records for topic in request.topics for _, records in topic.partitions),
    )


def refusal_of_batches(
    acks: int, transactional_id: str | None, batches: Iterable[memoryview | None]
) -> RequestError | None:
    """As `refusal_of`, of a request's parts."""
    if transactional_id is None:
        for records in batches:
            if is_transactional(records):
                return TransactionalIdAuthorizationFailed(
                    "The records belong to a transaction, and the request names no transactional id."
                )
    if acks not in _ACKS_ALLOWED:
        return InvalidRequiredAcks(f"acks is {acks}; it must be 0, 1 or -1 (all).")
    return None


def refuse(frame: memoryview, context: RequestContext[ProduceParts], code: int) -> bytes | None:
    """The answer that has the error `code` for every partition; for tests that ask for faults."""
    request = parse_produce_request(context.header.api_version, frame, context.header.body_position, 0)
    results = [
        (topic.raw, [ProducePartitionResult(index, code) for index, _ in topic.partitions])
        for topic in request.topics
    ]
    return pack_answer(context, request.acks, results)


def append(
    key: str | bytes,
    index: int,
    records: memoryview | None,
    acks: int,
    context: RequestContext[ProduceParts],
    refusal: RequestError | None,
    uncommitted: list[Uncommitted],
    late: list[Late],
    token: VerificationToken | None = None,
) -> ProducePartitionResult:
    """The result; of a batch that goes to `late`, what is to be replaced by it."""
    partition = None
    try:
        if refusal is not None:
            raise refusal
        partition = context.broker.partitions.get_by_key(key, index)
        if not records or context.header.api_version < FIRST_WITH_ZSTD:
            refusal = frame_error(records or b"", context.header.api_version)
            if refusal is not None:
                raise refusal
        if partition.is_internal:
            check_internal(partition, context)
        leader = partition.leader
        if leader is None:
            raise partition.reject(records or b"")
        appended = leader.append(records or b"", required_acks=acks, token=token)
    except LongWork as long:
        assert partition is not None
        placeholder = ProducePartitionResult(index, 0)
        late.append(Late(key, index, records, partition, token, long, placeholder))
        return placeholder
    except Exception as error:
        return build_failed_result(index, error, context, key, partition, records)
    # Taken apart: a named tuple's attributes would take three times as long.
    first_offset, last_offset, log_append_time_ms, log_start_offset, _, _, _ = appended
    result = _new_tuple(
        ProducePartitionResult, (index, 0, first_offset, log_append_time_ms, log_start_offset, (), None)
    )
    if partition.replica.high_watermark <= last_offset:
        uncommitted.append(Uncommitted(result, partition, last_offset, key, records))
    return result


def pack_answer(context: RequestContext[ProduceParts], acks: int, topics: Results) -> bytes | None:
    header = context.header
    if acks == 0:
        if any(result.error_code for _, results in topics for result in results):
            logger.info("%r produced with acks=0 and failed; its connection is closed", context.connection)
            context.connection.close()
        return None
    if header.api_version >= FIRST_FLEXIBLE and len(topics) == 1 and len(topics[0][1]) == 1:
        raw, (one,) = topics[0]
        if not (one.error_code or one.record_errors or one.error_message is not None):
            return pack_one_partition(
                header.correlation_id,
                raw,
                one.partition,
                one.base_offset,
                one.log_append_time_ms,
                one.log_start_offset,
            )
    leaders = None
    if header.api_version >= FIRST_WITH_LEADERS:
        elsewhere = [
            (key_of(header.api_version, raw), result.partition)
            for raw, results in topics
            for result in results
            if result.error_code == NOT_LEADER
        ]
        if elsewhere:
            leaders = current_leaders(context.broker.images.current, context.listener_name, elsewhere)
    return pack_produce_response(header.api_version, header.correlation_id, topics, leaders)
