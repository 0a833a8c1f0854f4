"""Checks of the APIs of share groups. Their handlers are loaded with the first request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol, cast
from uuid import UUID

from odradek.broker.requests.context import AnyContext, RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.loading import Answer, Handle, for_many
from odradek.broker.requests.parts import SharesParts
from odradek.broker.requests.rights.groups import hide_groups
from odradek.broker.requests.rights.rights import Rights, error_for
from odradek.broker.requests.rights.rules import (
    AnyCheck,
    ElementNeed,
    OfGroup,
    change_answer,
    each,
    on_element,
    partition_elements,
    reads_group,
    replace,
)
from odradek.foundation.errors import RequestError
from odradek.network.pending import Pending
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from odradek.broker.requests.shares.acknowledgements import MayRead
    from odradek.wire.protocol.requests import shares as requests
    from odradek.wire.protocol.responses import shares as responses

_DESCRIBED: Final[AnyCheck[requests.ShareGroupDescribeRequest]] = each(
    "group_ids", on_element(AclOperation.DESCRIBE, AclResourceType.GROUP)
)


def heartbeat_of_share_group(
    handle: Handle, request: requests.ShareGroupHeartbeatRequest, context: AnyContext, rights: Rights
) -> Answer:
    """ShareGroupHeartbeat: Read of the group, and Describe of each topic that the member subscribes to."""
    reads_group(request, rights)
    for name in dict.fromkeys(request.subscribed_topic_names or ()):
        rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    return handle(request, context)


def describe_share_groups(
    handle: Handle, request: requests.ShareGroupDescribeRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe of each group. One with a topic that the client may not describe is shown without its members."""

    def is_visible(group: responses.ShareGroupDescribedGroup) -> bool:
        return all(
            rights.could(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic_name)
            for member in group.members
            for topic in member.assignment.topic_partitions
        )

    def hide_denied_groups(answer: responses.ShareGroupDescribeResponse) -> Message:
        return hide_groups(answer, {one.group_id for one in answer.groups if not is_visible(one)}, context)

    return change_answer(_DESCRIBED(handle, request, context, rights), hide_denied_groups)


class _NamedTopic(Protocol):
    """A topic of a request, by name."""

    topic_name: str


def on_topic_name(operation: AclOperation) -> ElementNeed[object, _NamedTopic]:
    """As `on_topic`, for the field's other name."""

    def need(request: object, element: _NamedTopic, rights: Rights) -> RequestError | None:
        return rights.refusal(operation, AclResourceType.TOPIC, element.topic_name)

    return need


def deletes_group(request: OfGroup, rights: Rights) -> None:
    rights.require(AclOperation.DELETE, AclResourceType.GROUP, request.group_id)


alter_share_offsets: Final[AnyCheck[requests.AlterShareGroupOffsetsRequest]] = each(
    "topics", on_topic_name(AclOperation.READ), reads_group
)
delete_share_offsets: Final[AnyCheck[requests.DeleteShareGroupOffsetsRequest]] = each(
    "topics", on_topic_name(AclOperation.READ), deletes_group
)


def describe_share_offsets(
    handle: Handle, request: requests.DescribeShareGroupOffsetsRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe of each group, and of each topic. With all topics of a group, hidden ones are absent."""
    allowed: list[requests.DescribeShareGroupOffsetsRequestGroup] = []
    refused: list[Mapping[str, object]] = []
    hidden: dict[str, list[Mapping[str, object]]] = {}
    for group in request.groups:
        error = rights.refusal(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id)
        if error is not None:
            refused.append({"group_id": group.group_id, "topics": [], **error_fields(error)})
            continue
        seen, others = partition_elements(
            group.topics or (),
            lambda topic: rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic_name),
        )
        hidden[group.group_id] = [_refuse_topic(topic) for topic in others]
        allowed.append(group if group.topics is None else replace(group, topics=tuple(seen)))

    def complete(answer: responses.DescribeShareGroupOffsetsResponse) -> Message:
        groups = [
            replace(
                group,
                topics=tuple(
                    topic
                    for topic in group.topics
                    if rights.could(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic_name)
                ),
            )
            for group in answer.groups
        ]
        denied = cast(
            "responses.DescribeShareGroupOffsetsResponse",
            context.response(
                groups=[*({"group_id": one, "topics": rows} for one, rows in hidden.items()), *refused]
            ),
        )
        rows = {group.group_id: group.topics for group in denied.groups}
        joined = [replace(one, topics=(*one.topics, *rows.get(one.group_id, ()))) for one in groups]
        others = [group for group in denied.groups if group.group_id not in hidden]
        return replace(answer, groups=(*joined, *others))

    return change_answer(handle(replace(request, groups=tuple(allowed)), context), complete)


def _refuse_topic(topic: requests.DescribeShareGroupOffsetsRequestTopic) -> Mapping[str, object]:
    return {
        "topic_name": topic.topic_name,
        "partitions": [
            {
                "partition_index": number,
                "start_offset": -1,
                "lag": -1,
                **error_fields(error_for(AclResourceType.TOPIC)),
            }
            for number in topic.partitions
        ],
    }


# --- records ------------------------------------------------------------------------------------------------------


def fetch_shared(
    handle: Handle, request: requests.ShareFetchRequest, context: RequestContext[SharesParts], rights: Rights
) -> Answer:
    """A fetch that waits keeps the rights with which it began, so for max_wait at most."""
    del handle  # It asks for no rights.
    refusal = _group_refusal(request.group_id, rights)
    if refusal is not None:
        return context.response(**error_fields(refusal), responses=[], node_endpoints=[])
    return Pending(
        for_many("shares.share_fetch").answer_request(request, context, may_read=_may_read(rights))
    )


def acknowledge_shared(
    handle: Handle,
    request: requests.ShareAcknowledgeRequest,
    context: RequestContext[SharesParts],
    rights: Rights,
) -> Answer:
    del handle
    refusal = _group_refusal(request.group_id, rights)
    if refusal is not None:
        return context.response(**error_fields(refusal), responses=[], node_endpoints=[])
    return Pending(
        for_many("shares.share_acknowledge").answer_request(request, context, may_read=_may_read(rights))
    )


def _group_refusal(group_id: str | None, rights: Rights) -> RequestError | None:
    """None too for a request without a group, which the handler refuses."""
    if group_id is None:
        return None
    return rights.refusal(AclOperation.READ, AclResourceType.GROUP, group_id)


def _may_read(rights: Rights) -> MayRead:
    known: dict[UUID, bool] = {}

    def may_read(topic_id: UUID) -> bool:
        if topic_id not in known:
            name = rights.name_of_id(topic_id)
            # An id that is not known has an error of its own.
            known[topic_id] = name is None or rights.may(AclOperation.READ, AclResourceType.TOPIC, name)
        return known[topic_id]

    return may_read
