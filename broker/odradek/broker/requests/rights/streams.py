"""Checks of the APIs of Streams groups. Their handlers are loaded with the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.rights.groups import hide_groups
from odradek.broker.requests.rights.rights import Rights
from odradek.broker.requests.rights.rules import (
    AnyCheck,
    change_answer,
    each,
    on_element,
    reads_group,
)
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.parts import ConsumerGroupParts
    from odradek.wire.protocol.requests import streams as requests
    from odradek.wire.protocol.responses import streams as responses

_DESCRIBED: Final[AnyCheck[requests.StreamsGroupDescribeRequest]] = each(
    "group_ids", on_element(AclOperation.DESCRIBE, AclResourceType.GROUP)
)


def heartbeat_of_topology(
    handle: Handle,
    request: requests.StreamsGroupHeartbeatRequest,
    context: RequestContext[ConsumerGroupParts],
    rights: Rights,
) -> Answer:
    """StreamsGroupHeartbeat: Read of the group, and Describe of each topic that the topology names.

    Internal topics are created with the client's right: Create of each, or on the cluster.
    """
    from odradek.broker.requests import streams_group_heartbeat

    reads_group(request, rights)
    if request.topology is not None:
        names = streams_group_heartbeat.list_topics(request.topology)
        streams_group_heartbeat.check_topic_names(names)
        for name in names:
            rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)

    def may_create(name: str) -> bool:
        return rights.may_instead(AclOperation.CREATE, AclResourceType.CLUSTER) or rights.may(
            AclOperation.CREATE, AclResourceType.TOPIC, name
        )

    return cast(Answer, streams_group_heartbeat.handle(request, context, may_create))


def describe_streams_groups(
    handle: Handle, request: requests.StreamsGroupDescribeRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe of each group. One with a topic that the client may not describe is shown without its members."""

    def is_visible(group: responses.StreamsGroupDescribedGroup) -> bool:
        if group.topology is None:
            return True
        names = {
            name
            for one in group.topology.subtopologies or ()
            for name in (
                *one.source_topics,
                *one.repartition_sink_topics,
                *(topic.name for topic in one.repartition_source_topics),
                *(topic.name for topic in one.state_changelog_topics),
            )
        }
        return all(rights.could(AclOperation.DESCRIBE, AclResourceType.TOPIC, name) for name in names)

    def hide_denied_groups(answer: responses.StreamsGroupDescribeResponse) -> Message:
        return hide_groups(answer, {one.group_id for one in answer.groups if not is_visible(one)}, context)

    return change_answer(_DESCRIBED(handle, request, context, rights), hide_denied_groups)
