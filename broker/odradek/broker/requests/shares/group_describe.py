"""ShareGroupDescribe: share groups with their members, epochs and assignments."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.groups.consumer.schema import Assignment
from odradek.broker.groups.share.description import DescribedShareMember, describe_share_group
from odradek.broker.requests.authorized_operations import of_group
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import OdradekError
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import ShareGroupDescribeRequest


def handle(request: ShareGroupDescribeRequest, context: RequestContext[ConsumerGroupParts]) -> Message:
    is_asked = request.include_authorized_operations
    groups = [
        {**_group(group_id, context), "authorized_operations": of_group(context, group_id, is_asked=is_asked)}
        for group_id in request.group_ids
    ]
    return context.response(groups=groups)


def _group(group_id: str, context: RequestContext[ConsumerGroupParts]) -> Mapping[str, object]:
    try:
        group = describe_share_group(context.broker.groups, group_id)
    except OdradekError as error:
        return {"group_id": group_id, **error_fields(error)}
    return {
        "group_id": group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor_name": group.assignor,
        "members": [_member(member, context) for member in group.members],
    }


def _member(
    described: DescribedShareMember, context: RequestContext[ConsumerGroupParts]
) -> Mapping[str, object]:
    member = described.member
    return {
        "member_id": described.member_id,
        "rack_id": member.rack_id,
        "member_epoch": described.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topic_names,
        "assignment": _assignment(described.assigned, context),
    }


def _assignment(assignment: Assignment, context: RequestContext[ConsumerGroupParts]) -> Mapping[str, object]:
    """The partitions by topic, with name and id; deleted topics have no name and are left out."""
    by_id = context.broker.images.current.topics_by_id
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": by_id[topic_id].name, "partitions": sorted(partitions)}
            for topic_id, partitions in assignment.items()
            if topic_id in by_id
        ]
    }
