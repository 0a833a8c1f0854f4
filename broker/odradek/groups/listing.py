"""Requests that look at groups from outside: list, describe (classic), delete."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import TYPE_CHECKING, NamedTuple

from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    NonEmptyGroup,
    OdradekError,
    RequestError,
)
from odradek.foundation.words import count
from odradek.groups.answers import Answer
from odradek.groups.consumer_draft import preferred_assignor
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.consumer_schema import Assignment, MemberValue
from odradek.groups.group import ClassicGroup, GroupState
from odradek.groups.schema import Encoded, encode_classic_group_key
from odradek.groups.shard import Group, Shard
from odradek.protocol.consumer import PROTOCOL_TYPE

if TYPE_CHECKING:
    from odradek.groups.routing import Routing

CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A classic group; `protocol` and the members' bytes are there while it is stable."""

    state: str
    protocol_type: str
    protocol: str
    members: list[DescribedMember]


def list_groups(
    coordinator: Routing, *, states: Collection[str] = (), types: Collection[str] = ()
) -> list[ListedGroup]:
    """The groups coordinated here; empty filters let all through, and capitals do not matter.

    Raises CoordinatorLoadInProgress while some are not known yet.
    """
    if coordinator.is_loading:
        raise CoordinatorLoadInProgress("some groups are still being loaded; try again")
    wanted_states = {state.lower() for state in states}
    wanted_types = {group_type.lower() for group_type in types}
    listed = []
    for shard in coordinator.loaded_shards():
        for group in shard.groups.values():
            row = _listed(group)
            if wanted_states and row.state.lower() not in wanted_states:
                continue
            if wanted_types and row.group_type not in wanted_types:
                continue
            listed.append(row)
    return listed


def _listed(group: Group) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, PROTOCOL_TYPE, group.state_name, CONSUMER_TYPE)
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)


def describe(coordinator: Routing, group_id: str) -> DescribedGroup:
    """A classic group. Raises GroupIdNotFound when there is none, and what routing raises."""
    group = coordinator.shard(group_id).groups.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
    is_stable = group.state is GroupState.STABLE
    protocol = (group.protocol or "") if is_stable else ""
    members = [
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(protocol) if is_stable else b"",
            member.assignment if is_stable else b"",
        )
        for member in group.members
    ]
    return DescribedGroup(group.state.value, group.protocol_type or "", protocol, members)


def delete(coordinator: Routing, group_id: str) -> OdradekError | Awaitable[OdradekError | None] | None:
    """Remove a group without members, and its offsets. Raises GroupIdNotFound, NonEmptyGroup, what routing
    raises.
    """
    shard = coordinator.shard(group_id)
    answer: Answer[OdradekError | None] = Answer()

    def act() -> None:
        try:
            shard.check_serving()
            removal = _validated(shard, group_id)
        except RequestError as error:
            answer(error)
        else:
            remove(shard, removal, answer)

    shard.when_free(group_id, act)
    return answer.get()


def _validated(shard: Shard, group_id: str) -> Group:
    group = shard.groups.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"there is no group {group_id!r}")
    if isinstance(group, ClassicGroup):
        group.validate_delete()
    elif not group.is_empty:
        raise NonEmptyGroup(
            f"the group {group_id!r} has {count(len(group.members), 'member')}; stop them first"
        )
    return group


def remove(shard: Shard, group: Group, answer: Answer[OdradekError | None]) -> None:
    """Write the tombstones of an empty group and of its offsets, and drop it unless somebody joined
    meanwhile.
    """
    group_id = group.group_id
    removals = [(group_id, topic, partition) for topic, partition in shard.offsets.of_group(group_id)]

    def on_written(error: OdradekError | None) -> None:
        if error is None and shard.groups.get(group_id) is group:
            if isinstance(group, ClassicGroup):
                group.last_stored = None
                is_removable = group.is_removable and not shard.offsets.of_group(group_id)
            else:
                is_removable = group.is_empty
            if is_removable:
                shard.forget_group(group_id, GroupIdNotFound(f"the group {group_id!r} was deleted"))
        answer(error)

    shard.remove_offsets(removals, on_written, more=group_tombstones(group))


def group_tombstones(group: Group) -> list[Encoded]:
    """What removes the group itself from the log."""
    if isinstance(group, ConsumerGroup):
        return group.tombstones()
    return [] if group.last_stored is None else [(encode_classic_group_key(group.group_id), None)]


class DescribedConsumer(NamedTuple):
    """One member of a consumer group, with what it owns and should own."""

    member_id: str
    member: MemberValue
    epoch: int
    assigned: Assignment
    target: Assignment


class DescribedConsumerGroup(NamedTuple):
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: list[DescribedConsumer]


def describe_consumer_group(coordinator: Routing, group_id: str) -> DescribedConsumerGroup:
    """A consumer group. Raises GroupIdNotFound when there is none, InvalidGroupId, UnsupportedVersion, and what
    routing raises.
    """
    coordinator.check_consumer_protocol()
    group = coordinator.named_shard(group_id).groups.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
    members = []
    for member_id, member in group.members.items():
        current = group.current(member_id)
        members.append(
            DescribedConsumer(
                member_id, member, current.member_epoch, current.assigned, group.target(member_id)
            )
        )
    assignor = preferred_assignor(group, coordinator.settings)
    return DescribedConsumerGroup(group.state_name, group.epoch, group.target_epoch, assignor, members)
