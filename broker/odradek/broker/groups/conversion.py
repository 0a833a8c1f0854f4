"""Groups change between the classic and the consumer protocol while their members continue (KIP-848's migration).

A classic group of consumers becomes a consumer group when the first member of the new protocol joins. The others stay
and speak the old protocol (see `consumer.classic_members`). When the last member of the new protocol leaves, the group
becomes classic again. `group.consumer.migration.policy` says which way is allowed. A group without members always may
change.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from odradek.broker.coordination.shard import Shard, StateMachine
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.classic.group import ClassicGroup, GroupState
from odradek.broker.groups.classic.members import ClassicGroupMember
from odradek.broker.groups.classic.rebalance import GroupHost
from odradek.broker.groups.classic.schema import encode_classic_group_key, encode_classic_group_value
from odradek.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupHost
from odradek.broker.groups.consumer.schema import (
    EMPTY_ASSIGNMENT,
    Assignment,
    ClassicProtocols,
    CurrentValue,
    GroupValue,
    MemberState,
    MemberValue,
    RecordKind,
    TargetEpochValue,
    TargetValue,
)
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.group_table import GroupTable
from odradek.foundation.errors import GroupIdNotFound, InvalidRequest, OdradekError, RebalanceInProgress
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import TopicImage
from odradek.wire.protocol.consumer import build_assignment, parse_assignment, parse_subscription

logger = logging.getLogger(__name__)


class GroupParts(NamedTuple):
    """The parts that the requests of one shard's groups work on."""

    groups: GroupTable
    shard: Shard[StateMachine]
    context: GroupContext


class ConversionHost(GroupHost, ConsumerGroupHost, Protocol):
    """The host of groups of both protocols."""


class Conversion:
    """Converts the groups of one shard."""

    def __init__(self, parts: GroupParts, host: ConversionHost) -> None:
        self._groups, self._shard, self._context = parts
        self._host = host

    def consumer_group_for(
        self, group_id: str, *, is_join: bool
    ) -> tuple[ConsumerGroup, list[EncodedRecord]]:
        """The consumer group, and the records that must be written before it is one.

        A join creates or converts it. Raises GroupIdNotFound when there is none, or the group may not be converted.
        """
        consumer = self._groups.consumer(group_id)
        if consumer is not None:
            return consumer, []
        group = self._groups.classic(group_id)
        if not is_join or (group is None and group_id in self._groups):
            raise self._groups.missing(group_id, "consumer")
        if group is None:
            return ConsumerGroup(group_id, self._host), []
        if group.rebalance.state is GroupState.EMPTY:
            return ConsumerGroup(group_id, self._host), group.tombstones()
        self._check_upgrade(group)
        converted = self._to_consumer(group)
        self._shard.stop_timer(group.timed)
        group.freeze(RebalanceInProgress(f"the group {group_id!r} changes its protocol; join again"))
        return converted, [(encode_classic_group_key(group_id), None), *converted.live_records()]

    def _check_upgrade(self, group: ClassicGroup) -> None:
        policy = self._context.settings.group_consumer_migration_policy.upper()
        if policy not in ("BIDIRECTIONAL", "UPGRADE"):
            reason = f"group.consumer.migration.policy = {policy.lower()} does not allow it"
        elif not group.rebalance.uses_consumer_protocol:
            reason = f"its protocol type is {group.protocol_type!r}"
        elif len(group.members) > self._context.settings.group_consumer_max_size:
            reason = "it has more members than group.consumer.max.size"
        else:
            return
        raise GroupIdNotFound(
            f"The classic group {group.group_id} cannot become a consumer group: {reason}. Stop its members first."
        )

    def _to_consumer(self, group: ClassicGroup) -> ConsumerGroup:
        """A consumer group of the same members, each owning its last assignment."""
        topics = self._context.images.current.topics
        converted = ConsumerGroup(group.group_id, self._host)
        try:
            for member in group.members:
                subscription = parse_subscription(
                    member.metadata(group.rebalance.protocol or member.protocols[0][0])
                )
                assigned = ids_of(parse_assignment(member.assignment).partitions, topics)
                value = MemberValue(
                    instance_id=member.instance_id,
                    rack_id=subscription.rack_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    topic_names=tuple(sorted(set(subscription.topics))),
                    topic_regex=None,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    server_assignor=None,
                    classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
                )
                current = CurrentValue(
                    member_epoch=group.rebalance.generation,
                    previous_member_epoch=group.rebalance.generation,
                    state=MemberState.STABLE,
                    assigned=assigned,
                    pending_revocation=EMPTY_ASSIGNMENT,
                )
                converted.apply(RecordKind.MEMBER, member.member_id, value)
                converted.apply(RecordKind.TARGET, member.member_id, TargetValue(assigned))
                converted.apply(RecordKind.CURRENT, member.member_id, current)
        except InvalidRequest as error:
            raise GroupIdNotFound(
                f"The classic group {group.group_id} cannot become a consumer group: a member's subscription "
                f"or assignment cannot be read: {error}"
            ) from error
        converted.apply(RecordKind.GROUP, "", GroupValue(group.rebalance.generation))
        converted.apply(RecordKind.TARGET_EPOCH, "", TargetEpochValue(group.rebalance.generation))
        return converted

    def cancel_conversion(self, group_id: str) -> None:
        """The conversion could not be written: the classic group continues."""
        group = self._groups.classic(group_id)
        if group is not None:
            self._shard.wake(group.timed)

    # --- back to the classic protocol -----------------------------------------------------------------------

    def may_become_classic(self, group: ConsumerGroup, *, without: Collection[str], joining: int = 0) -> bool:
        """Whether only members of the classic protocol are left without those, and the policy allows the change."""
        staying = [member for member_id, member in group.members.items() if member_id not in without]
        if not staying and not joining:
            return False
        if all(group.members[member_id].classic is not None for member_id in without):
            return False
        policy = self._context.settings.group_consumer_migration_policy.upper()
        return (
            all(member.classic is not None for member in staying)
            and policy in ("BIDIRECTIONAL", "DOWNGRADE")
            and len(staying) + joining <= self._context.settings.group_max_size
        )

    def to_classic_without(
        self, group: ConsumerGroup, leaving: Collection[str], on_written: OnWritten
    ) -> None:
        """Remove the members that leave, and make the group a classic one; the others rebalance."""
        self.write_classic(group, self.classic_group(group, without=leaving), on_written, rebalance=True)

    def write_classic(
        self, group: ConsumerGroup, classic: ClassicGroup, on_written: OnWritten, *, rebalance: bool
    ) -> None:
        """Write that the classic group replaces the consumer group, then replace it in memory."""
        value = classic.rebalance.value()
        records = [
            *group.tombstones(),
            (encode_classic_group_key(group.group_id), encode_classic_group_value(value)),
        ]

        def take_over() -> None:
            replaced = self._groups.get(group.group_id)
            if replaced is not None:
                self._shard.stop_timer(replaced.timed)
            self._groups[group.group_id] = classic

        def start_classic(error: OdradekError | None) -> None:
            if error is None:
                classic.start_converted(rebalance=rebalance)
            on_written(error)

        logger.info("group %r becomes a classic group", group.group_id)
        self._shard.write(group.group_id, records, start_classic, apply=take_over)

    def classic_group(self, group: ConsumerGroup, *, without: Collection[str] = ()) -> ClassicGroup:
        """A classic group of the members (all of the classic protocol) but those, each assigned its target."""
        members = []
        for member_id, value in group.members.items():
            if member_id in without:
                continue
            assert value.classic is not None, f"{member_id} does not speak the classic protocol"
            members.append(
                ClassicGroupMember(
                    member_id,
                    instance_id=value.instance_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    session_timeout_ms=value.classic.session_timeout_ms,
                    protocols=value.classic.protocols,
                )
            )
        classic = ClassicGroup.from_members(
            group.group_id, generation=group.epoch, members=members, host=self._host
        )
        for member in classic.members:
            version = parse_subscription(member.metadata(classic.rebalance.protocol or "")).version
            member.assignment = self.assignment_bytes(group.target(member.member_id), version=version)
        return classic

    def assignment_bytes(self, assignment: Assignment, *, version: int) -> bytes:
        """An assignment as members of the classic protocol read it, without topics that are gone."""
        by_id = self._context.images.current.topics_by_id
        named = sorted(
            (by_id[topic_id].name, sorted(partitions))
            for topic_id, partitions in assignment.items()
            if topic_id in by_id
        )
        return build_assignment(named, version=version)


def ids_of(
    partitions: Iterable[tuple[str, Iterable[int]]], topics: Mapping[str, TopicImage]
) -> dict[UUID, frozenset[int]]:
    """Partitions by topic id, without topics that are gone."""
    return {topics[name].id: frozenset(indexes) for name, indexes in partitions if name in topics}
