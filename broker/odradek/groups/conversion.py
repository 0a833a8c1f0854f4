"""Groups change between the classic and the consumer protocol while their members go on (KIP-848's
migration).

A classic group of consumers becomes a consumer group when the first member of the new protocol joins: the
others stay, speaking the old one (see `classic_on_consumer`). When the last member of the new protocol
leaves, it becomes classic again. `group.consumer.migration.policy` says which way is allowed; a group without
members changes in any case.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.foundation.errors import (
    GroupIdNotFound,
    InvalidRequest,
    OdradekError,
    RebalanceInProgress,
)
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.consumer_schema import (
    EMPTY_ASSIGNMENT,
    KIND_CURRENT,
    KIND_GROUP,
    KIND_MEMBER,
    KIND_TARGET,
    KIND_TARGET_EPOCH,
    Assignment,
    ClassicProtocols,
    CurrentValue,
    GroupValue,
    MemberState,
    MemberValue,
    TargetEpochValue,
    TargetValue,
)
from odradek.groups.group import ClassicGroup, GroupState
from odradek.groups.members import Member
from odradek.groups.schema import (
    Encoded,
    encode_classic_group_key,
    encode_classic_group_value,
)
from odradek.groups.shard import Shard
from odradek.groups.writer import OnWritten
from odradek.protocol.consumer import (
    PROTOCOL_TYPE,
    build_assignment,
    parse_assignment,
    parse_subscription,
)

if TYPE_CHECKING:
    from odradek.cluster.image import TopicImage
    from odradek.groups.routing import Routing

logger = logging.getLogger(__name__)

__all__ = [
    "OnWritten",
    "cancelled",
    "consumer_group_for",
    "ids_of",
    "may_become_classic",
    "to_classic_without",
]


def consumer_group_for(
    coordinator: Routing, shard: Shard, group_id: str, *, is_join: bool
) -> tuple[ConsumerGroup, list[Encoded]]:
    """The consumer group, made or converted when somebody joins, with the records that must be written for
    that.

    Raises GroupIdNotFound when there is none and there may be none.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, []
    if not is_join:
        raise GroupIdNotFound(f"Group {group_id} is not a consumer group." if group else _missing(group_id))
    if group is None:
        return ConsumerGroup(group_id, shard), []
    if group.state is GroupState.EMPTY:
        tombstones: list[Encoded] = []
        if group.last_stored is not None:
            tombstones.append((encode_classic_group_key(group_id), None))
        return ConsumerGroup(group_id, shard), tombstones
    _check_upgrade(coordinator, group)
    converted = _to_consumer(coordinator, shard, group)
    shard.pause(group)
    group.freeze(RebalanceInProgress(f"the group {group_id!r} changes its protocol; join again"))
    return converted, [(encode_classic_group_key(group_id), None), *converted.records()]


def _missing(group_id: str) -> str:
    return f"Group {group_id} not found."


def _check_upgrade(coordinator: Routing, group: ClassicGroup) -> None:
    policy = coordinator.settings.group_consumer_migration_policy.upper()
    if policy not in ("BIDIRECTIONAL", "UPGRADE"):
        reason = f"group.consumer.migration.policy = {policy.lower()} does not allow it"
    elif not group.uses_consumer_protocol:
        reason = f"its protocol type is {group.protocol_type!r}"
    elif len(group.members) > coordinator.settings.group_consumer_max_size:
        reason = "it has more members than group.consumer.max.size"
    else:
        return
    raise GroupIdNotFound(
        f"The classic group {group.group_id} cannot become a consumer group: {reason}. Stop its members "
        f"first."
    )


def _to_consumer(coordinator: Routing, shard: Shard, group: ClassicGroup) -> ConsumerGroup:
    """The consumer group with the classic one's members, each owning what it was assigned last."""
    topics = coordinator.images.current.topics
    converted = ConsumerGroup(group.group_id, shard)
    try:
        for member in group.members:
            subscription = parse_subscription(member.metadata(group.protocol or member.protocols[0][0]))
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
                member_epoch=group.generation,
                previous_member_epoch=group.generation,
                state=MemberState.STABLE,
                assigned=assigned,
                pending_revocation=EMPTY_ASSIGNMENT,
            )
            converted.apply(KIND_MEMBER, member.member_id, value)
            converted.apply(KIND_TARGET, member.member_id, TargetValue(assigned))
            converted.apply(KIND_CURRENT, member.member_id, current)
    except InvalidRequest as error:
        raise GroupIdNotFound(
            f"The classic group {group.group_id} cannot become a consumer group: a member's subscription "
            f"or assignment "
            f"cannot be read: {error}"
        ) from error
    converted.apply(KIND_GROUP, "", GroupValue(group.generation))
    converted.apply(KIND_TARGET_EPOCH, "", TargetEpochValue(group.generation))
    return converted


def ids_of(
    partitions: Iterable[tuple[str, Iterable[int]]], topics: Mapping[str, TopicImage]
) -> dict[UUID, frozenset[int]]:
    """Partitions by topic id, without topics that are gone."""
    return {topics[name].id: frozenset(indexes) for name, indexes in partitions if name in topics}


def cancelled(shard: Shard, group_id: str) -> None:
    """The conversion could not be written: the classic group goes on."""
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        shard.wake(group)


# --- back to the classic protocol ---------------------------------------------------------------------------


def may_become_classic(
    coordinator: Routing, group: ConsumerGroup, *, without: Collection[str], joining: int = 0
) -> bool:
    """Whether only members of the classic protocol are left when those go, and the group may change
    for them.
    """
    staying = [member for member_id, member in group.members.items() if member_id not in without]
    if not staying and not joining:
        return False
    if all(group.members[member_id].classic is not None for member_id in without):
        return False
    policy = coordinator.settings.group_consumer_migration_policy.upper()
    return (
        all(member.classic is not None for member in staying)
        and policy in ("BIDIRECTIONAL", "DOWNGRADE")
        and len(staying) + joining <= coordinator.settings.group_max_size
    )


def to_classic_without(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    leaving: Collection[str],
    on_written: OnWritten,
) -> None:
    """The group becomes classic as those leave; the others rebalance."""
    targets = {
        member_id: (member, group.target(member_id))
        for member_id, member in group.members.items()
        if member_id not in leaving
    }
    classic = classic_group(coordinator, shard, group.group_id, group.epoch, targets)
    write_classic(shard, group, classic, on_written, rebalance=True)


def write_classic(
    shard: Shard, group: ConsumerGroup, classic: ClassicGroup, on_written: OnWritten, *, rebalance: bool
) -> None:
    """Write that the consumer group is gone and the classic one is there, and let it take its place."""
    value = classic.value()
    records = [
        *group.tombstones(),
        (encode_classic_group_key(group.group_id), encode_classic_group_value(value)),
    ]

    def started(error: OdradekError | None) -> None:
        if error is None:
            classic.last_stored = value
            classic.start_after_conversion(rebalance=rebalance)
        on_written(error)

    logger.info("group %r becomes a classic group", group.group_id)
    shard.write_group(group.group_id, records, started, becomes=classic)


def classic_group(
    coordinator: Routing,
    shard: Shard,
    group_id: str,
    generation: int,
    targets: Mapping[str, tuple[MemberValue, Assignment]],
) -> ClassicGroup:
    """A classic group of these members (all of the classic protocol), each assigned its target."""
    members = []
    for member_id, (value, _) in targets.items():
        assert value.classic is not None, f"{member_id} does not speak the classic protocol"
        members.append(
            Member(
                member_id,
                instance_id=value.instance_id,
                client_id=value.client_id,
                client_host=value.client_host,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                session_timeout_ms=value.classic.session_timeout_ms,
                protocol_type=PROTOCOL_TYPE,
                protocols=value.classic.protocols,
            )
        )
    classic = ClassicGroup.converted(group_id, generation=generation, members=members, host=shard)
    for member in classic.members:
        version = parse_subscription(member.metadata(classic.protocol or "")).version
        member.assignment = assignment_bytes(coordinator, targets[member.member_id][1], version=version)
    return classic


def assignment_bytes(coordinator: Routing, assignment: Assignment, *, version: int) -> bytes:
    """An assignment as members of the classic protocol read it, without topics that are gone."""
    by_id = coordinator.images.current.topics_by_id
    named = sorted(
        (by_id[topic_id].name, sorted(partitions))
        for topic_id, partitions in assignment.items()
        if topic_id in by_id
    )
    return build_assignment(named, version=version)
