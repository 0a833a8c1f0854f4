"""TxnOffsetCommit: offsets of a group that become its committed ones when a transaction is committed.

Before a transaction's first commit to a group, its coordinator is asked whether the group's partition belongs to it.
From version 5 on the partition is added, as by Produce 12 (KIP-890). From version 6 on topics have ids instead of names
(KIP-1319).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.broker.coordination.topic_log import TransactionalWriter
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.replication.transaction_verifier import Question
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import TransactionParts
from odradek.broker.requests.topic_ids import code_of_missing, find_topic
from odradek.foundation.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    KafkaStorageError,
    NotCoordinator,
    NotLeaderOrFollower,
    OdradekError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicId
from odradek.foundation.transaction_errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic

FIRST_THAT_ADDS: Final = 5
FIRST_WITH_TOPIC_IDS: Final = 6
_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_WITH_LOADING: Final = 2

# A topic as the request names it, and a partition.
Asked = tuple[str, TopicId | None, int]
Commits = list[tuple[str, int, OffsetAndMetadata]]


async def handle(request: TxnOffsetCommitRequest, context: RequestContext[TransactionParts]) -> Message:
    known = _select_known(request, context)
    errors: Iterable[OdradekError | None]
    commits = list(known.values())
    try:
        errors = await _write(request, context, commits) if commits else ()
    except OdradekError as error:
        errors = [error] * len(commits)
    codes = {
        asked: _code(error, context.header.api_version) for asked, error in zip(known, errors, strict=True)
    }
    by_id = context.header.api_version >= FIRST_WITH_TOPIC_IDS
    image = context.broker.images.current
    there: list[dict[str, object]] = []
    away: list[dict[str, object]] = []
    for topic in request.topics:
        is_known = find_topic(image, topic, by_id=by_id) is not None
        missing = code_of_missing(is_topic_known=is_known, by_id=by_id)
        (there if is_known else away).append(_answer(topic, codes, otherwise=missing))
    # As in Kafka's answers, topics that do not exist come first.
    return context.response(topics=away + there)


def _answer(
    topic: TxnOffsetCommitRequestTopic, codes: Mapping[Asked, int], *, otherwise: int
) -> dict[str, object]:
    name, topic_id = topic.name, topic.topic_id
    partitions = [
        {
            "partition_index": one.partition_index,
            "error_code": codes.get((name, topic_id, one.partition_index), otherwise),
        }
        for one in topic.partitions
    ]
    return {"name": name, "topic_id": topic_id, "partitions": partitions}


def _select_known(
    request: TxnOffsetCommitRequest, context: RequestContext[TransactionParts]
) -> dict[Asked, tuple[str, int, OffsetAndMetadata]]:
    """The offsets of topics that exist; a partition that is named twice has the last one."""
    image = context.broker.images.current
    by_id = context.header.api_version >= FIRST_WITH_TOPIC_IDS
    now_ms = context.broker.clock.wall_ms()
    found: dict[Asked, tuple[str, int, OffsetAndMetadata]] = {}
    for topic in request.topics:
        known = find_topic(image, topic, by_id=by_id)
        for one in topic.partitions:
            if known is not None and 0 <= one.partition_index < len(known.partitions):
                committed = OffsetAndMetadata(
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.committed_metadata or "",
                    now_ms,
                    topic_id=known.id if by_id else None,
                )
                asked = topic.name, topic.topic_id, one.partition_index
                found[asked] = known.name, one.partition_index, committed
    return found


async def _write(
    request: TxnOffsetCommitRequest, context: RequestContext[TransactionParts], commits: Commits
) -> Iterable[OdradekError | None]:
    broker, version = context.broker, context.header.api_version
    if not request.group_id:
        raise InvalidGroupId("the group id must not be empty; set group.id")
    offsets = broker.groups.offsets
    adds_partition = version >= FIRST_THAT_ADDS
    partition, writer, must_ask = offsets.begin_verification(
        request.group_id,
        TransactionalWriter(request.producer_id, request.producer_epoch),
        adds_partition=adds_partition,
    )
    if must_ask:
        question = Question(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            adds_partition,
            (partition,),
        )
        refusals = await broker.verifier.verify(question)
        if partition in refusals:
            raise refusals[partition]
    outcome = offsets.commit(
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        version=version,
        commits=commits,
        writer=writer,
    )
    return outcome if isinstance(outcome, list) else await outcome


def _code(error: OdradekError | None, version: int) -> int:
    """As Kafka answers: errors that clients of transactions know."""
    match error:
        case ProducerFenced():
            error = InvalidProducerEpoch()
        case TransactionAbortable() if version < _FIRST_WITH_ABORTABLE:
            error = InvalidTxnState()
        case UnknownTopicOrPartition() | UnknownServerError() | BrokerNotAvailable():
            error = CoordinatorNotAvailable()
        case NotLeaderOrFollower() | KafkaStorageError():
            error = NotCoordinator()
    code = error_code(error)
    if version < _FIRST_WITH_LOADING and isinstance(error, CoordinatorLoadInProgress):
        return error_code(CoordinatorNotAvailable())
    return code
