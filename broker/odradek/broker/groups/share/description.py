"""A share group as administrators see it."""

from __future__ import annotations

from odradek.broker.groups.consumer.schema import Assignment
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.share.assignor import SIMPLE
from odradek.broker.groups.share.schema import ShareMemberValue
from odradek.foundation.errors import InvalidGroupId
from odradek.foundation.named_tuple import NamedTuple


class DescribedShareMember(NamedTuple):
    """One member, with what it reads."""

    member_id: str
    member: ShareMemberValue
    epoch: int
    assigned: Assignment


class DescribedShareGroup(NamedTuple):
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: list[DescribedShareMember]


def describe_share_group(groups: GroupCoordinator, group_id: str) -> DescribedShareGroup:
    """Raises GroupIdNotFound when there is none, InvalidGroupId, UnsupportedVersion, and what routing raises."""
    groups.context.check_share_protocol()
    if not group_id:
        raise InvalidGroupId("the group id must not be empty; set group.id")
    table = groups.runtime.shard(group_id).machine.groups
    group = table.share(group_id)
    if group is None:
        raise table.missing(group_id, "share")
    members = [
        DescribedShareMember(
            member_id,
            member,
            group.current(member_id).member_epoch,
            group.current(member_id).assigned,
        )
        for member_id, member in group.members.items()
    ]
    return DescribedShareGroup(group.state_name, group.epoch, group.target_epoch, SIMPLE, members)
