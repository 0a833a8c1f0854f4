"""A transactional Produce asks before it appends: whether its partitions belong to the transaction (KIP-890).

Producers of version 2 of transactions (Produce 12 and newer) never name partitions to their coordinator: the question
adds them. Where the transaction is open in a partition already, there is no question.

Errors of the coordinator become such as each version of Produce can stand. NOT_ENOUGH_REPLICAS lets a producer send
again, without new metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.transaction_verifier import Question, Refusals
from odradek.broker.replication.transactional_writes import begin_verification
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ProduceParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    NotEnoughReplicas,
    RequestError,
    UnknownServerError,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.security_errors import ClusterAuthorizationFailed
from odradek.foundation.transaction_errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)
from odradek.storage.verification import VerificationToken
from odradek.wire.protocol.hot.produce import ProduceRequest
from odradek.wire.records.batch import HEADER_BYTES, is_transactional, read_header

FIRST_THAT_ADDS: Final = 12
_FIRST_WITH_ABORTABLE: Final = 11


class Verification(NamedTuple):
    """Tokens by partition as the request names it, for the appends; `question` None where there is none to ask."""

    tokens: dict[tuple[str | bytes, int], VerificationToken]
    partitions: dict[tuple[str | bytes, int], TopicPartition]
    question: Question | None


NOTHING_TO_VERIFY: Final = Verification({}, {}, None)


def begin(request: ProduceRequest, partitions: HostedPartitions, *, version: int) -> Verification:
    """Take the tokens of all partitions with a transactional batch. Raises InvalidProducerIdMapping.

    Partitions that this broker does not lead are left out: their append says what is wrong.
    """
    transactional_id = request.transactional_id
    assert transactional_id is not None, "without one nothing is transactional"
    adds_partitions = version >= FIRST_THAT_ADDS
    found = Verification({}, {}, None)
    producers: set[tuple[int, int]] = set()
    for topic in request.topics:
        for index, records in topic.partitions:
            if records is None or len(records) < HEADER_BYTES or not is_transactional(records):
                continue
            header = read_header(records)
            producers.add((header.producer_id, header.producer_epoch))
            try:
                partition = partitions.get_by_key(topic.key, index)
            except RequestError:
                continue
            if partition.leader is None or partition.is_internal:
                continue
            token = begin_verification(
                partition.leader,
                header.producer_id,
                header.producer_epoch,
                first_sequence=header.base_sequence,
                adds_partition=adds_partitions,
            )
            if token is not None:
                found.tokens[topic.key, index] = token
                found.partitions[topic.key, index] = partition.topic_partition
    if len(producers) > 1:
        raise InvalidProducerIdMapping(
            "A request has the transactional records of one producer and epoch only."
        )
    if not found.tokens:
        return found
    ((producer_id, producer_epoch),) = producers
    asked = tuple(dict.fromkeys(found.partitions.values()))
    return found._replace(
        question=Question(transactional_id, producer_id, producer_epoch, adds_partitions, asked)
    )


def name_refusals(
    verification: Verification, refusals: Refusals, *, version: int
) -> dict[tuple[str | bytes, int], RequestError]:
    """Why partitions are not appended to, as the request names them."""
    return {
        key: as_answered(refusals[partition], version)
        for key, partition in verification.partitions.items()
        if partition in refusals
    }


def as_answered(error: RequestError, version: int) -> RequestError:
    """The error that a producer of `version` is answered instead of an error of the transaction coordinator."""
    match error:
        case ProducerFenced():
            return InvalidProducerEpoch(str(error))
        case TransactionAbortable() if version < _FIRST_WITH_ABORTABLE:
            return InvalidTxnState(str(error))
        case ClusterAuthorizationFailed():
            return InvalidTxnState(str(error))
        case ConcurrentTransactions() if version >= FIRST_THAT_ADDS:
            return error
        case (
            ConcurrentTransactions()
            | CoordinatorLoadInProgress()
            | CoordinatorNotAvailable()
            | NotCoordinator()
            | BrokerNotAvailable()
            | UnknownServerError()
        ):
            return NotEnoughReplicas(f"Unable to verify that the partition is in the transaction: {error}")
    return error


def begin_verifying(
    request: ProduceRequest,
    context: RequestContext[ProduceParts],
    refusal: RequestError | None,
    denied: Mapping[str | bytes, RequestError],
) -> tuple[Verification, RequestError | None]:
    """What the transaction coordinator has to be asked, and why the request is refused."""
    if refusal is not None or request.transactional_id is None:
        return NOTHING_TO_VERIFY, refusal
    asked = request
    if denied:
        asked = request._replace(topics=[topic for topic in request.topics if topic.key not in denied])
    try:
        return begin(asked, context.broker.partitions, version=context.header.api_version), None
    except InvalidProducerIdMapping as error:
        return NOTHING_TO_VERIFY, without_trace(error)


async def verify_partitions(
    context: RequestContext[ProduceParts], verification: Verification, question: Question
) -> Mapping[tuple[str | bytes, int], RequestError]:
    """Why partitions are not appended to, as the transaction coordinator says it."""
    version = context.header.api_version
    refusals = await context.broker.verifier.verify(question, retries=version >= FIRST_THAT_ADDS)
    return name_refusals(verification, refusals, version=version)
