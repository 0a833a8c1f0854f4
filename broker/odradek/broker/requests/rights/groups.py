"""Checks of groups' APIs that are more than one right on one name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, cast

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.failures import error_fields, partition_codes
from odradek.broker.requests.find_coordinator import GROUP, NOBODY, TRANSACTION
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.offset_fetch import (
    FIRST_WITH_TOPIC_IDS,
    VERSION_WITH_ERROR_OF_ALL,
    VERSION_WITH_GROUPS,
    topic_with_error,
)
from odradek.broker.requests.rights.rights import Rights, error_for
from odradek.broker.requests.rights.rules import (
    AnyCheck,
    Named,
    change_answer,
    each,
    join_denied,
    join_messages,
    name_of,
    on_element,
    partition_elements,
    reads_group,
    replace,
)
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.network.pending import Pending
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from odradek.wire.protocol.requests import groups as requests
    from odradek.wire.protocol.responses import groups as responses
    from odradek.wire.protocol.responses import shares as shares_responses
    from odradek.wire.protocol.responses import streams as streams_responses

T = TypeVar("T", bound=Named)
DescribedT = TypeVar(
    "DescribedT",
    "responses.ConsumerGroupDescribeResponse",
    "shares_responses.ShareGroupDescribeResponse",
    "streams_responses.StreamsGroupDescribeResponse",
)

_FIRST_WITH_KEYS: Final = 4
_KEY_TYPES: Final = {GROUP: AclResourceType.GROUP, TRANSACTION: AclResourceType.TRANSACTIONAL_ID}
TOPIC_DENIED: Final = error_code(error_for(AclResourceType.TOPIC))
_DESCRIBED: Final[AnyCheck[requests.ConsumerGroupDescribeRequest]] = each(
    "group_ids", on_element(AclOperation.DESCRIBE, AclResourceType.GROUP)
)
HIDDEN_TOPIC: Final = "The group has described topic(s) that the client is not authorized to describe."


def find_coordinator(
    handle: Handle, request: requests.FindCoordinatorRequest, context: AnyContext, rights: Rights
) -> Answer:
    resource_type = _KEY_TYPES.get(request.key_type)
    if resource_type is None:
        # An unknown type is refused as such. Share groups are the brokers' own business.
        if request.key_type > TRANSACTION:
            rights.require(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
        return handle(request, context)
    version = context.header.api_version
    denied = {**NOBODY, **error_fields(error_for(resource_type))}
    if version < _FIRST_WITH_KEYS:
        if rights.may(AclOperation.DESCRIBE, resource_type, request.key):
            return handle(request, context)
        return context.response(**denied)
    allowed, hidden = partition_elements(
        request.coordinator_keys, lambda key: rights.may(AclOperation.DESCRIBE, resource_type, key)
    )
    if not hidden:
        return handle(request, context)
    answer = context.response(coordinators=[{"key": key, **denied} for key in hidden])
    if not allowed:
        return answer
    return join_denied(handle(replace(request, coordinator_keys=tuple(allowed)), context), answer)


def list_groups(
    handle: Handle, request: requests.ListGroupsRequest, context: AnyContext, rights: Rights
) -> Answer:
    """All groups with Describe on the cluster, else those with Describe: never an error."""
    if rights.may_instead(AclOperation.DESCRIBE, AclResourceType.CLUSTER):
        return handle(request, context)

    def visible(answer: responses.ListGroupsResponse) -> Message:
        groups = [
            one
            for one in answer.groups
            if rights.could(AclOperation.DESCRIBE, AclResourceType.GROUP, one.group_id)
        ]
        return replace(answer, groups=tuple(groups))

    return change_answer(handle(request, context), visible)


def offset_fetch(
    handle: Handle, request: requests.OffsetFetchRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe of each group, and of each topic. With all topics of a group, hidden ones are absent."""
    version = context.header.api_version
    if version < VERSION_WITH_GROUPS:
        return _offset_fetch_of_one(handle, request, context, rights)
    groups = []
    answers: list[dict[str, object]] = []
    # In the order of the groups that the handler answers: a request may name one group many times.
    hidden: list[list[requests.OffsetFetchRequestTopics]] = []
    for group in request.groups:
        error = rights.refusal(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id)
        if error is not None:
            answers.append({"group_id": group.group_id, "error_code": error_code(error), "topics": []})
            continue
        shown_topics, hidden_topics = _by_visibility(group.topics, rights)
        hidden.append(hidden_topics)
        groups.append(replace(group, topics=shown_topics))
    answer = context.response(groups=answers)
    if not groups:
        return answer

    def visible(found: responses.OffsetFetchResponse) -> Message:
        shown = []
        for one, hidden_topics in zip(found.groups, hidden, strict=True):
            if one.error_code:
                shown.append(one)
                continue
            denied = _answer_denied_topics(context, hidden_topics).groups[0].topics
            shown.append(replace(one, topics=(*_visible_answers(one.topics, rights), *denied)))
        return replace(found, groups=tuple(shown))

    return join_denied(
        change_answer(handle(replace(request, groups=tuple(groups)), context), visible), answer
    )


def _offset_fetch_of_one(
    handle: Handle, request: requests.OffsetFetchRequest, context: AnyContext, rights: Rights
) -> Answer:
    version = context.header.api_version
    error = rights.refusal(AclOperation.DESCRIBE, AclResourceType.GROUP, request.group_id)
    if error is not None:
        if version >= VERSION_WITH_ERROR_OF_ALL:
            return context.response(topics=[], error_code=error_code(error))
        raise error
    shown_topics, hidden = _by_visibility(request.topics, rights)

    def visible(found: responses.OffsetFetchResponse) -> Message:
        if getattr(found, "error_code", 0):
            return found
        denied = _answer_denied_topics(context, hidden).topics
        return replace(found, topics=(*_visible_answers(found.topics, rights), *denied))

    return change_answer(handle(replace(request, topics=shown_topics), context), visible)


def _by_visibility(topics: Iterable[T] | None, rights: Rights) -> tuple[tuple[T, ...] | None, list[T]]:
    """The topics that the client may describe, None where all are asked for, and the others."""
    if topics is None:
        return None, []

    def may_describe(topic: T) -> bool:
        # The handler answers for an id that is not known.
        name = name_of(topic, rights, FIRST_WITH_TOPIC_IDS)
        return name is None or rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)

    shown, hidden = partition_elements(topics, may_describe)
    return tuple(shown), hidden


def _visible_answers(topics: Iterable[T], rights: Rights) -> tuple[T, ...]:
    def could_describe(topic: T) -> bool:
        name = name_of(topic, rights, FIRST_WITH_TOPIC_IDS)
        return name is None or rights.could(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)

    return tuple(filter(could_describe, topics))


def _answer_denied_topics(
    context: AnyContext,
    hidden: Sequence[requests.OffsetFetchRequestTopic] | Sequence[requests.OffsetFetchRequestTopics],
) -> responses.OffsetFetchResponse:
    """The answers for topics that the client may not describe: in `topics`, or in one group."""
    topics = [
        topic_with_error(
            topic.name,
            topic.partition_indexes,
            TOPIC_DENIED,
            topic_id=getattr(topic, "topic_id", None),
        )
        for topic in hidden
    ]
    has_groups = context.header.api_version >= VERSION_WITH_GROUPS
    made = context.response(
        **({"groups": [{"group_id": "", "topics": topics}]} if has_groups else {"topics": topics})
    )
    return cast("responses.OffsetFetchResponse", made)


def leave_group(
    handle: Handle, request: requests.LeaveGroupRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Read of the group. The error is the whole answer's, not the members'."""
    error = rights.refusal(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if error is None:
        return handle(request, context)
    return context.response(error_code=error_code(error), members=[])


def offset_delete(
    handle: Handle, request: requests.OffsetDeleteRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Delete of the group, and Read of each topic. With an error of the group, no topic is answered."""
    error = rights.refusal(AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    if error is not None:
        return context.response(error_code=error_code(error), topics=[])

    allowed, hidden = partition_elements(
        request.topics, lambda topic: rights.may(AclOperation.READ, AclResourceType.TOPIC, topic.name)
    )
    if not hidden:
        return handle(request, context)
    denied = context.response(topics=partition_codes(hidden, {}, otherwise=TOPIC_DENIED))

    def complete(answer: responses.OffsetDeleteResponse) -> Message:
        return answer if answer.error_code else join_messages(answer, denied)

    return change_answer(handle(replace(request, topics=tuple(allowed)), context), complete)


def heartbeat_of_subscription(
    handle: Handle, request: requests.ConsumerGroupHeartbeatRequest, context: AnyContext, rights: Rights
) -> Answer:
    """ConsumerGroupHeartbeat: Read of the group, and Describe of every subscribed name."""
    reads_group(request, rights)
    names = request.subscribed_topic_names or ()
    if len(names) > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_heartbeat_of_many(handle, request, context, rights))
    for name in names:
        rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    return handle(request, context)


async def _heartbeat_of_many(
    handle: Handle, request: requests.ConsumerGroupHeartbeatRequest, context: AnyContext, rights: Rights
) -> Message | Frame | None:
    turn = Turn()
    for name in request.subscribed_topic_names or ():
        if turn.is_over():
            await turn.next()
        rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    answer = handle(request, context)
    return await answer if isinstance(answer, Pending) else answer


def describe_consumer_groups(
    handle: Handle, request: requests.ConsumerGroupDescribeRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe of each group. One with a topic that the client may not describe is shown without its members."""

    def is_visible(group: responses.ConsumerGroupDescribedGroup) -> bool:
        return all(
            rights.could(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic_name)
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        )

    def hide_denied_groups(answer: responses.ConsumerGroupDescribeResponse) -> Message:
        return hide_groups(answer, {one.group_id for one in answer.groups if not is_visible(one)}, context)

    return change_answer(_DESCRIBED(handle, request, context, rights), hide_denied_groups)


def hide_groups(answer: DescribedT, hidden: Collection[str], context: AnyContext) -> Message:
    """The answer with an error in place of groups whose members show topics that the client may not describe."""
    if not hidden:
        return answer
    denied = context.response(
        groups=[
            {"group_id": group_id, "error_code": TOPIC_DENIED, "error_message": HIDDEN_TOPIC}
            for group_id in hidden
        ]
    )
    others = tuple(group for group in answer.groups if group.group_id not in hidden)
    return join_messages(replace(answer, groups=others), denied)
