"""Checks of transactions' APIs that are more than one right on one name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, Final

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.long_answers import MANY, has_many, make_in_turns
from odradek.broker.requests.rights.rights import Rights, error_for
from odradek.broker.requests.rights.rules import AnyCheck, change_answer, each, on_element, replace
from odradek.foundation.errors import RequestError
from odradek.foundation.transaction_errors import OperationNotAttempted
from odradek.foundation.turns import Leftovers, Turn
from odradek.network.pending import Pending
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from odradek.wire.protocol.requests.cluster import InitProducerIdRequest
    from odradek.wire.protocol.requests.transactions import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
        WritableTxnMarker,
        WriteTxnMarkersRequest,
    )
    from odradek.wire.protocol.responses.transactions import (
        DescribeTransactionsResponse,
        ListTransactionsResponse,
    )

_FIRST_OF_BROKERS: Final = 4
_TOPIC_DENIED: Final = error_code(error_for(AclResourceType.TOPIC))
_CLUSTER_DENIED: Final = error_code(error_for(AclResourceType.CLUSTER))
_NOT_ATTEMPTED: Final = error_code(OperationNotAttempted())


def init_producer_id(
    handle: Handle, request: InitProducerIdRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Write of the transactional id. Without one, IdempotentWrite on the cluster or Write on any topic (KIP-679)."""
    error: RequestError | None
    if request.transactional_id is not None:
        error = rights.refusal(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    elif rights.may_instead(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER) or rights.may_any(
        AclOperation.WRITE, AclResourceType.TOPIC
    ):
        error = None
    else:
        error = rights.refusal(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER)
    if error is None:
        return handle(request, context)
    return context.response(error_code=error_code(error), producer_id=-1, producer_epoch=-1)


def add_partitions(
    handle: Handle, request: AddPartitionsToTxnRequest, context: AnyContext, rights: Rights
) -> Answer:
    """A client needs Write of the transactional id and of each topic; a broker needs ClusterAction.

    With one topic denied, the partitions of the others are not added either.
    """
    version = context.header.api_version
    if version >= _FIRST_OF_BROKERS:
        if rights.may(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
            return handle(request, context)
        return context.response(error_code=_CLUSTER_DENIED, results_by_transaction=[])
    rights.require(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id
    )
    return Pending(_add_allowed(handle, request, context, rights))


async def _add_allowed(
    handle: Handle, request: AddPartitionsToTxnRequest, context: AnyContext, rights: Rights
) -> Message | Frame | None:
    topics = request.v3_and_below_topics
    async with Leftovers() as kept:
        denied: set[str] = kept.until_end(set())
        turn = Turn()
        for topic in topics:
            if turn.is_over():
                await turn.next()
            count = len(topic.partitions)
            if not rights.may(AclOperation.WRITE, AclResourceType.TOPIC, topic.name, count=count):
                denied.add(topic.name)
        if denied:
            return await make_in_turns(
                context,
                len(topics) if not has_many(topic.partitions for topic in topics) else MANY,
                lambda: context.response(results_by_topic_v3_and_below=_describe_denied(topics, denied)),
            )
    answer = handle(request, context)
    return await answer if isinstance(answer, Pending) else answer


def _describe_denied(
    topics: Iterable[AddPartitionsToTxnTopic], denied: Set[str]
) -> Iterator[dict[str, object]]:
    for topic in topics:
        code = _TOPIC_DENIED if topic.name in denied else _NOT_ATTEMPTED
        rows = ({"partition_index": index, "partition_error_code": code} for index in topic.partitions)
        yield {"name": topic.name, "results_by_partition": rows}


def write_markers(
    handle: Handle, request: WriteTxnMarkersRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Alter or ClusterAction on the cluster."""
    if rights.may_instead(AclOperation.ALTER, AclResourceType.CLUSTER) or rights.may(
        AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER
    ):
        return handle(request, context)
    is_long = has_many(topic.partition_indexes for marker in request.markers for topic in marker.topics)
    return Pending(
        make_in_turns(
            context,
            MANY if is_long else len(request.markers),
            lambda: context.response(markers=map(_describe_denied_marker, request.markers)),
        )
    )


def _describe_denied_marker(marker: WritableTxnMarker) -> dict[str, object]:
    return {
        "producer_id": marker.producer_id,
        "topics": (
            {
                "name": topic.name,
                "partitions": (
                    {"partition_index": index, "error_code": _CLUSTER_DENIED}
                    for index in topic.partition_indexes
                ),
            }
            for topic in marker.topics
        ),
    }


_EACH: Final[AnyCheck[DescribeTransactionsRequest]] = each(
    "transactional_ids", on_element(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)
)


def describe(
    handle: Handle, request: DescribeTransactionsRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe of each transactional id; of its topics, those with Describe are shown."""

    def visible(answer: DescribeTransactionsResponse) -> Message:
        states = [
            replace(
                state,
                topics=tuple(
                    topic
                    for topic in state.topics
                    if rights.could(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic)
                ),
            )
            for state in answer.transaction_states
        ]
        return replace(answer, transaction_states=tuple(states))

    return change_answer(_EACH(handle, request, context, rights), visible)


def list_visible(
    handle: Handle, request: ListTransactionsRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Those with Describe: never an error."""

    def visible(answer: ListTransactionsResponse) -> Message:
        states = tuple(
            state
            for state in answer.transaction_states
            if rights.could(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, state.transactional_id)
        )
        return replace(answer, transaction_states=states)

    return change_answer(handle(request, context), visible)
