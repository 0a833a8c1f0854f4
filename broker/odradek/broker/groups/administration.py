"""Requests that look at groups from outside: list, describe, delete."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Collection

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import DeferredAnswer, Shard
from odradek.broker.groups.classic.group import GroupState
from odradek.broker.groups.consumer.schema import Assignment, MemberValue
from odradek.broker.groups.consumer.update import choose_assignor
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.state_machine import GroupStateMachine
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    InvalidGroupId,
    OdradekError,
)
from odradek.foundation.named_tuple import NamedTuple


class GroupOverview(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class MemberSummary(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupSummary(NamedTuple):
    """A classic group; `protocol` and the members' bytes are there while it is stable."""

    state: str
    protocol_type: str
    protocol: str
    members: list[MemberSummary]


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


class GroupAdministration:
    """All groups of one coordinator, as far as clients may see them."""

    def __init__(self, runtime: CoordinatorRuntime[GroupStateMachine], context: GroupContext) -> None:
        self._runtime = runtime
        self._context = context

    def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupOverview]:
        """The groups coordinated here; empty filters let all through, and capitals do not matter.

        Raises CoordinatorLoadInProgress while some are not known yet.
        """
        if self._runtime.is_loading:
            raise CoordinatorLoadInProgress("some groups are still being loaded; try again")
        wanted_states = {state.lower() for state in states}
        wanted_types = {group_type.lower() for group_type in types}
        listed = []
        for shard in self._runtime.list_loaded_shards():
            for group in shard.machine.groups.values():
                row = GroupOverview(group.group_id, group.protocol_type or "", group.state_name, group.kind)
                if wanted_states and row.state.lower() not in wanted_states:
                    continue
                if wanted_types and row.group_type not in wanted_types:
                    continue
                listed.append(row)
        return listed

    def describe(self, group_id: str) -> GroupSummary:
        """A classic group. Raises GroupIdNotFound when there is none, and what routing raises."""
        groups = self._runtime.shard(group_id).machine.groups
        group = groups.classic(group_id)
        if group is None:
            raise groups.missing(group_id, "classic")
        is_stable = group.rebalance.state is GroupState.STABLE
        protocol = (group.rebalance.protocol or "") if is_stable else ""
        members = [
            MemberSummary(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members
        ]
        return GroupSummary(group.state_name, group.protocol_type or "", protocol, members)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """A consumer group. Raises GroupIdNotFound when there is none, InvalidGroupId, UnsupportedVersion, and what
        routing raises.
        """
        self._context.check_consumer_protocol()
        if not group_id:
            raise InvalidGroupId("the group id must not be empty; set group.id")
        groups = self._runtime.shard(group_id).machine.groups
        group = groups.consumer(group_id)
        if group is None:
            raise groups.missing(group_id, "consumer")
        members = []
        for member_id, member in group.members.items():
            current = group.current(member_id)
            members.append(
                DescribedConsumer(
                    member_id, member, current.member_epoch, current.assigned, group.target(member_id)
                )
            )
        assignor = choose_assignor(group, self._context.settings)
        return DescribedConsumerGroup(group.state_name, group.epoch, group.target_epoch, assignor, members)

    def delete(self, group_id: str) -> OdradekError | Awaitable[OdradekError | None] | None:
        """Remove a group without members, and its offsets. Raises GroupIdNotFound, NonEmptyGroup, what routing
        raises.
        """
        shard = self._runtime.shard(group_id)
        if shard.machine.groups.share(group_id) is not None:
            return self._delete_share_group(shard, group_id)
        answer: DeferredAnswer[OdradekError | None] = DeferredAnswer()

        shard.when_serving(group_id, lambda: shard.machine.delete(group_id, answer), answer)
        return answer.get()

    async def _delete_share_group(
        self, shard: Shard[GroupStateMachine], group_id: str
    ) -> OdradekError | None:
        """The states of its share-partitions go first: a group of the same name begins without them."""
        try:
            await shard.machine.shares.states.delete_all(group_id)
        except OdradekError as error:
            return without_trace(error)
        answer: DeferredAnswer[OdradekError | None] = DeferredAnswer()
        shard.when_serving(group_id, lambda: shard.machine.delete(group_id, answer), answer)
        outcome = answer.get()
        return await outcome if inspect.isawaitable(outcome) else outcome
