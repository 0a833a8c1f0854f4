"""Checks of Produce and Fetch, whose frames are read by hand, on each topic.

The topics that were allowed are kept on the connection with the version of the ACLs. So a producer that continues with
its topic costs a comparison of a few bytes, and a consumer a look-up for each partition. A connection has one principal
and one address for its life.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from odradek.broker.requests.context import AnyContext, RequestContext
from odradek.broker.requests.fetch import handler as fetch_handler
from odradek.broker.requests.fetch import many as fetch_many
from odradek.broker.requests.fetch.reading import FetchReading
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.long_answers import parse_in_thread
from odradek.broker.requests.parts import FetchParts, ProduceParts
from odradek.broker.requests.produce import handler as produce_handler
from odradek.broker.requests.produce import many as produce_many
from odradek.broker.requests.rights.rights import Rights, error_for, logs_allowed
from odradek.foundation.errors import RequestError
from odradek.foundation.limits import AUTHORIZED_TOPICS_PER_CONNECTION_MAX
from odradek.foundation.turns import Leftovers, Turn
from odradek.network.pending import Pending
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.security.authorization.authorizer import Authorizer
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.hot.elements import TooManyElements
from odradek.wire.protocol.hot.fetch_request import parse_fetch_request
from odradek.wire.protocol.hot.produce import (
    FIRST_FLEXIBLE,
    ProducedTopic,
    ProduceRequest,
    parse_one_partition,
    parse_produce_request,
)
from odradek.wire.records.batch import is_transactional

if TYPE_CHECKING:
    from odradek.broker.requests.produce.many import Checked

_FETCHED: Final = "authorized fetch"


def produce_behind_check(handle: Handle, authorizer: Authorizer) -> Handle:
    """`produce` for one handler.

    A producer that continues with its topic costs a comparison of the topic's bytes, which the handler parses anyway.
    """
    answer_one = produce_handler.answer_one if handle is produce_handler.handle else None

    def handle_produce(frame: memoryview, context: RequestContext[ProduceParts]) -> Answer:
        header = context.header
        version = header.api_version
        # By index: a named tuple's attribute takes three times as long.
        known = context[1].produce_right
        if known is not None and known[0] == authorizer.version and known[1] == version and answer_one:
            one = parse_one_partition(version, frame, header.body_position)
            if one is not None and one[1] == known[2]:
                return answer_one(one, context)  # type: ignore[return-value]
        return produce(handle, frame, context, Rights(authorizer, context))

    return cast(Handle, handle_produce)


def produce(
    handle: Handle, frame: memoryview, context: RequestContext[ProduceParts], rights: Rights
) -> Answer:
    """Write of each topic; of the transactional id too, where the records belong to a transaction."""
    header = context.header
    position = header.body_position
    try:
        request = parse_produce_request(header.api_version, frame, position)
    except TooManyElements:
        answer: Pending[Frame | None] = Pending(
            produce_many.answer_in_turns(
                frame, context, check=lambda many: _check_many(many, context, rights)
            )
        )
        return answer
    refusal = _transaction_refusal(request, rights)
    denied = {} if refusal is not None else _find_denied_topics(request, context, rights)
    if refusal is not None or denied:
        return cast(Answer, produce_handler.answer_request(request, context, refusal=refusal, denied=denied))
    is_usual = header.api_version >= FIRST_FLEXIBLE and request.transactional_id is None
    # What is remembered is not asked, and so not logged.
    if is_usual and len(request.topics) == 1 and not logs_allowed():
        context.connection.produce_right = rights.version, header.api_version, request.topics[0].raw
    if handle is not produce_handler.handle:
        return handle(frame, context)
    # It would parse the frame once more.
    return cast(Answer, produce_handler.answer_request(request, context))


async def _check_many(
    request: ProduceRequest, context: RequestContext[ProduceParts], rights: Rights
) -> Checked:
    """As for a small request, some topics in each turn of the loop."""
    refusal = _transaction_refusal(request, rights)
    denied: dict[str | bytes, RequestError] = {}
    turn = Turn()
    for topic in request.topics if refusal is None else ():
        if turn.is_over():
            await turn.next()
        if _is_denied(topic, context, rights):
            denied[topic.key] = error_for(AclResourceType.TOPIC)
    return refusal, denied


def _transaction_refusal(request: ProduceRequest, rights: Rights) -> RequestError | None:
    if request.transactional_id is None:
        return None
    if not any(is_transactional(records) for topic in request.topics for _, records in topic.partitions):
        return None
    return rights.refusal(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)


def _find_denied_topics(
    request: ProduceRequest, context: RequestContext[ProduceParts], rights: Rights
) -> dict[str | bytes, RequestError]:
    return {
        topic.key: error_for(AclResourceType.TOPIC)
        for topic in request.topics
        if _is_denied(topic, context, rights)
    }


def _is_denied(topic: ProducedTopic, context: RequestContext[ProduceParts], rights: Rights) -> bool:
    name = _name_of(topic.key, context)
    return name is not None and not rights.may(
        AclOperation.WRITE, AclResourceType.TOPIC, name, count=len(topic.partitions)
    )


def _name_of(key: str | bytes, context: AnyContext) -> str | None:
    """The topic's name; None for an unknown id, which the handler answers as such."""
    if isinstance(key, str):
        return key
    topic = context.broker.images.current.topics_by_id.get(uuid.UUID(bytes=key))
    return None if topic is None else topic.name


def fetch(handle: Handle, frame: memoryview, context: RequestContext[FetchParts], rights: Rights) -> Answer:
    """Read of each topic; a request that claims to be a follower's needs ClusterAction on the cluster instead.

    A fetch that waits keeps the rights with which it began, so for max.wait.ms at most.
    """
    header = context.header
    try:
        request = parse_fetch_request(header.api_version, frame, header.body_position)
    except TooManyElements:
        return Pending(_fetch_many(frame, context, rights))
    if request.replica_id >= 0:
        if rights.may(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
            return handle(frame, context)
        return fetch_handler.refuse(frame, context, error_code(error_for(AclResourceType.TOPIC)))

    def restrict(reading: FetchReading) -> None:
        denied = _unreadable(reading, context, rights)
        if denied:
            reading.deny(denied)

    return fetch_handler.answer_request(
        request, context, restrict=restrict, restrict_many=lambda many: _restrict(many, context, rights)
    )


async def _fetch_many(frame: memoryview, context: RequestContext[FetchParts], rights: Rights) -> Frame:
    """As for a small request. Whose it claims to be stands in its last bytes, so a thread reads all of them."""
    header = context.header
    asked: list[object] = []

    def replica_id() -> int:
        request = parse_in_thread(parse_fetch_request, header.api_version, frame, header.body_position)
        asked.extend((*request.partitions, *request.forgotten))
        return request.replica_id

    async with Leftovers() as kept:
        kept.until_end(asked)
        is_of_broker = await context.broker.long_work.submit(replica_id) >= 0
    if not is_of_broker:
        return await fetch_many.answer_in_turns(
            frame, context, restrict=lambda many: _restrict(many, context, rights)
        )
    if rights.may(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
        return await fetch_many.answer_in_turns(frame, context)
    return fetch_handler.refuse(frame, context, error_code(error_for(AclResourceType.TOPIC)))


async def _restrict(reading: FetchReading, context: RequestContext[FetchParts], rights: Rights) -> None:
    """Deny the topics that the client may not read, some partitions in each turn of the loop."""
    counts: Counter[str | bytes] = Counter()
    denied: dict[str | bytes, RequestError] = {}
    turn = Turn()
    for target in reading.targets:
        if turn.is_over():
            await turn.next()
        counts[target.topic] += 1
    for key, count in counts.items():
        if turn.is_over():
            await turn.next()
        name = _name_of(key, context)
        if name is not None and not rights.may(AclOperation.READ, AclResourceType.TOPIC, name, count=count):
            denied[key] = error_for(AclResourceType.TOPIC)
    if denied:
        reading.deny(denied)


def _unreadable(
    reading: FetchReading, context: RequestContext[FetchParts], rights: Rights
) -> dict[str | bytes, RequestError]:
    version = rights.version
    state = context.connection.state
    known = state.get(_FETCHED)
    if known is None or known[0] != version or len(known[1]) > AUTHORIZED_TOPICS_PER_CONNECTION_MAX:
        known = state[_FETCHED] = (version, set())
    # What is remembered is not asked, and so not logged.
    allowed: set[str | bytes] = set() if logs_allowed() else known[1]
    counts = Counter(target.topic for target in reading.targets if target.topic not in allowed)
    denied: dict[str | bytes, RequestError] = {}
    for target in reading.targets:
        key = target.topic
        if key in allowed or key in denied:
            continue
        name = _name_of(key, context)
        if name is None:
            continue
        if rights.may(AclOperation.READ, AclResourceType.TOPIC, name, count=counts[key]):
            allowed.add(key)
        else:
            denied[key] = error_for(AclResourceType.TOPIC)
    return denied
