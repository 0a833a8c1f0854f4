"""Requests of consumer groups (KIP-848): heartbeat, leave, expiry of members, describe.

A heartbeat carries everything: who the member is, what it subscribes to, what it owns; its answer, what it
may own now. Most heartbeats change nothing and are answered at once. Others become records, and are answered
when those are written.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.foundation.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    OdradekError,
    RequestError,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from odradek.groups import conversion, fencing
from odradek.groups.answers import Answer
from odradek.groups.assignors import ASSIGNORS
from odradek.groups.consumer_draft import Draft, is_part_of
from odradek.groups.consumer_group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from odradek.groups.consumer_schema import (
    EMPTY_ASSIGNMENT,
    KIND_CURRENT,
    Assignment,
    CurrentValue,
    MemberState,
    MemberValue,
)
from odradek.groups.schema import Encoded
from odradek.groups.shard import Shard

if TYPE_CHECKING:
    from odradek.groups.routing import Routing

logger = logging.getLogger(__name__)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A heartbeat; None (and -1 for the timeout) means as before."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Mapping[UUID, frozenset[int]] | None = None
    client_id: str = ""
    client_host: str = ""
    requires_member_id: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """The answer: the member's epoch, and its assignment if it changed or was asked for."""

    member_id: str
    member_epoch: int
    assigned: Assignment | None = None


Outcome = HeartbeatResult | OdradekError


def heartbeat(coordinator: Routing, group_id: str, request: HeartbeatRequest) -> Outcome | Awaitable[Outcome]:
    """Join, stay or leave. Gives the result or the error to answer."""
    answer: Answer[Outcome] = Answer()

    def act() -> None:
        try:
            shard.check_serving()
            if request.member_epoch in (LEAVE_EPOCH, LEFT_FOR_NOW_EPOCH):
                _leave(coordinator, shard, group_id, request, answer)
            else:
                _heartbeat(coordinator, shard, group_id, request, answer)
        except RequestError as error:
            answer(error)

    try:
        _check(coordinator, group_id, request)
        shard = coordinator.shard(group_id)
        shard.when_free(group_id, act)
    except RequestError as error:
        answer(error)
    return answer.get()


def _check(coordinator: Routing, group_id: str, request: HeartbeatRequest) -> None:
    """Raises InvalidRequest for what contradicts itself, UnsupportedAssignor, InvalidRegularExpression,
    UnsupportedVersion where this protocol is not served.
    """
    coordinator.check_consumer_protocol()
    epoch = request.member_epoch
    _require(group_id != "", "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    _require(epoch >= LEFT_FOR_NOW_EPOCH, f"MemberEpoch {epoch} is invalid.")
    if epoch != JOIN_EPOCH or request.requires_member_id:
        _require(request.member_id != "", "MemberId can't be empty.")
    if epoch == LEFT_FOR_NOW_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    if epoch == JOIN_EPOCH:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        owns_nothing = request.owned is not None and not request.owned
        _require(owns_nothing, "TopicPartitions must be empty when (re-)joining.")
        _require(
            request.topic_names is not None or request.topic_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    configured = coordinator.settings.group_consumer_assignors
    if request.server_assignor is not None and (
        request.server_assignor not in configured or request.server_assignor not in ASSIGNORS
    ):
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(name for name in configured if name in ASSIGNORS)}."
        )
    if request.topic_regex:
        coordinator.patterns.check(request.topic_regex)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest(message)


# --- heartbeat ----------------------------------------------------------------------------------------------


def _heartbeat(
    coordinator: Routing,
    shard: Shard,
    group_id: str,
    request: HeartbeatRequest,
    answer: Answer[Outcome],
) -> None:
    if request.member_epoch == JOIN_EPOCH:
        fencing.check_may_join(coordinator, group_id)
    else:
        fencing.check_may_stay(coordinator, group_id)
    group, first_records = conversion.consumer_group_for(
        coordinator, shard, group_id, is_join=request.member_epoch == JOIN_EPOCH
    )
    _check_size(coordinator, group, request.member_id)
    if not first_records and _is_quiet(coordinator, group, request):
        group.extend_session(request.member_id, coordinator.session_timeout_ms(group_id))
        shard.wake(group)
        current = group.current(request.member_id)
        answer(HeartbeatResult(member_id=request.member_id, member_epoch=current.member_epoch))
        return
    member_id = request.member_id or coordinator.new_id()
    draft = Draft(group, coordinator, shard)
    _admit(draft, member_id, request)
    before = draft.group.current(member_id)
    if request.member_epoch == JOIN_EPOCH and before.member_epoch != JOIN_EPOCH:
        draft.forget_current(member_id)
    advance_group(draft, member_id, _member_value(draft.group.members.get(member_id), request))
    current = draft.reconcile(member_id, request.owned)
    is_full = request.member_epoch == JOIN_EPOCH or (
        request.rebalance_timeout_ms != -1
        and (request.topic_names is not None or request.topic_regex is not None)
        and request.owned is not None
    )
    result = HeartbeatResult(
        member_id=member_id,
        member_epoch=current.member_epoch,
        assigned=current.assigned if is_full or current.assigned != before.assigned else None,
    )
    topics = coordinator.images.current.topics

    def on_written(error: OdradekError | None) -> None:
        if error is not None:
            conversion.cancelled(shard, group_id)
            answer(error)
            return
        written = shard.groups[group_id]
        assert isinstance(written, ConsumerGroup)
        written.topics_seen = topics
        if first_records:
            written.start_sessions()  # those who were there as classic members must show up too
        _after_step(coordinator, shard, written, member_id, current, has_moved=current != before)
        answer(result)

    records = [*first_records, *draft.records]
    if records:
        shard.write_group(group_id, records, on_written)
    else:
        on_written(None)


def _check_size(coordinator: Routing, group: ConsumerGroup, member_id: str) -> None:
    size_max = coordinator.settings.group_consumer_max_size
    if len(group.members) >= size_max and member_id not in group.members:
        raise GroupMaxSizeReached(
            f"The consumer group has reached its maximum capacity of {size_max} members."
        )


def _is_quiet(coordinator: Routing, group: ConsumerGroup, request: HeartbeatRequest) -> bool:
    """Whether the heartbeat of a member that is where it should be brings nothing new."""
    if (
        request.topic_names is not None
        or request.topic_regex is not None
        or request.owned is not None
        or request.rebalance_timeout_ms != -1
        or request.rack_id is not None
        or request.server_assignor is not None
        or group.topics_seen is not coordinator.images.current.topics
        or group.target_epoch < group.epoch
    ):
        return False
    member = group.members.get(request.member_id)
    if member is None or member.classic is not None or member.instance_id != request.instance_id:
        return False
    current = group.current(request.member_id)
    return (
        current.state is MemberState.STABLE
        and current.member_epoch == request.member_epoch == group.target_epoch
        and (member.client_id, member.client_host) == (request.client_id, request.client_host)
    )


def _admit(draft: Draft, member_id: str, request: HeartbeatRequest) -> None:
    """Raises when the member may not speak for this place in the group; a static one may take over
    its old self's.
    """
    group = draft.group
    is_join = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        if member_id not in group.members and not is_join:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {group.group_id}.")
        if member_id in group.members and not is_join:
            _check_epoch(group, member_id, request)
        return
    existing = group.id_of_instance(request.instance_id)
    if not is_join:
        _check_instance(group, member_id, request.instance_id)
        _check_epoch(group, member_id, request)
    elif existing is not None and existing != member_id:
        is_gone = group.current(existing).member_epoch == LEFT_FOR_NOW_EPOCH
        if not is_gone and group.members[existing].classic is None:
            raise UnreleasedInstanceId(
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group: "
                f"the instance "
                f"id is in use by member {existing}, which has not left."
            )
        draft.replace_member(existing, member_id)


def _check_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> None:
    existing = group.id_of_instance(instance_id)
    if existing is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown in group {group.group_id}; join again.")
    if existing != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing}."
        )


def _check_epoch(group: ConsumerGroup, member_id: str, request: HeartbeatRequest) -> None:
    """Raises FencedMemberEpoch unless the epoch is the member's, or the one before with nothing beyond its
    assignment: then the answer with the new epoch was lost."""
    current = group.current(member_id)
    epoch = request.member_epoch
    if epoch == current.member_epoch:
        return
    if epoch == current.previous_member_epoch and is_part_of(request.owned, current.assigned):
        return
    raise FencedMemberEpoch(
        f"The member is at epoch {epoch}, the coordinator has it at {current.member_epoch}. The member "
        f"must abandon all "
        "its partitions and rejoin."
    )


def _member_value(known: MemberValue | None, request: HeartbeatRequest) -> MemberValue:
    names = request.topic_names
    if known is None:
        return MemberValue(
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            topic_names=tuple(sorted(set(names or ()))),
            topic_regex=request.topic_regex,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            server_assignor=request.server_assignor,
        )
    return MemberValue(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=known.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=known.topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
    )


def advance_group(draft: Draft, member_id: str, member: MemberValue) -> None:
    """Take in what a member asks for, and assign anew when that or the topics changed."""
    must_assign = draft.update_member(member_id, member)
    must_assign = draft.refresh_topics() or must_assign
    if must_assign:
        draft.bump_epoch()
    draft.update_target()


def _after_step(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    member_id: str,
    current: CurrentValue,
    *,
    has_moved: bool,
) -> None:
    """The member is alive; if it was just told to revoke, the time for that begins."""
    group.extend_session(member_id, coordinator.session_timeout_ms(group.group_id))
    if current.state is not MemberState.UNREVOKED_PARTITIONS:
        group.step_deadlines.pop(member_id, None)
    elif has_moved:
        group.step_deadlines.pop(member_id, None)
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        group.set_step_deadline(member_id, timeout_ms, current.member_epoch)
    shard.wake(group)


# --- leave and expiry ---------------------------------------------------------------------------------------


def _leave(
    coordinator: Routing,
    shard: Shard,
    group_id: str,
    request: HeartbeatRequest,
    answer: Answer[Outcome],
) -> None:
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(f"There is no consumer group {group_id}.")
    member_id = request.member_id
    if request.instance_id is not None:
        _check_instance(group, member_id, request.instance_id)
    elif member_id not in group.members:
        raise UnknownMemberId(f"Member {member_id} is not a member of group {group_id}.")
    result = HeartbeatResult(member_id=member_id, member_epoch=request.member_epoch)

    def on_written(error: OdradekError | None) -> None:
        answer(error or result)

    if request.member_epoch == LEFT_FOR_NOW_EPOCH:
        # Its partitions stay its own until it is back or its session ends.
        away = replace(
            group.current(member_id), member_epoch=LEFT_FOR_NOW_EPOCH, pending_revocation=EMPTY_ASSIGNMENT
        )
        draft = Draft(group, coordinator, shard)
        draft.put(KIND_CURRENT, member_id, away)
        shard.write_group(group_id, draft.records, on_written)
    else:
        fence(coordinator, shard, group, [member_id], on_written)


def fence(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    member_ids: list[str],
    on_written: conversion.OnWritten,
) -> None:
    """Take members out; the group becomes a classic one when only members of that protocol are left."""
    if conversion.may_become_classic(coordinator, group, without=member_ids):
        conversion.to_classic_without(coordinator, shard, group, member_ids, on_written)
        return
    draft = Draft(group, coordinator, shard)
    for member_id in member_ids:
        draft.remove_member(member_id)
    draft.refresh_topics()
    draft.bump_epoch()
    records: list[Encoded] = draft.records
    shard.write_group(group.group_id, records, on_written)


def expire_members(coordinator: Routing, group: ConsumerGroup) -> None:
    """Fence the members whose session, or time to revoke, is over."""
    group.wake_at = math.inf  # until `act` has looked
    # Not as for a request: a shard that clients are turned away from at the moment must not be asked again at once.
    shard = coordinator.shard_here(group.group_id)
    if shard is None:
        return

    def act() -> None:
        if shard.groups.get(group.group_id) is not group:
            return
        now = shard.now()
        dead = {member_id for member_id, at in group.session_deadlines.items() if at <= now}
        for member_id, (at, epoch) in list(group.step_deadlines.items()):
            if at <= now:
                del group.step_deadlines[member_id]
                if group.current(member_id).member_epoch == epoch:
                    dead.add(member_id)
        for member_id in dead:
            group.session_deadlines.pop(member_id, None)
        group.rearm()
        fenced = sorted(member_id for member_id in dead if member_id in group.members)
        if fenced:
            logger.info(
                "group %r: members %s are fenced, their time is up", group.group_id, ", ".join(fenced)
            )
            fence(coordinator, shard, group, fenced, on_written(fenced))

    def on_written(fenced: list[str]) -> conversion.OnWritten:
        def retry_when_failed(error: OdradekError | None) -> None:
            if error is not None and shard.groups.get(group.group_id) is group:
                for member_id in fenced:
                    group.extend_session(member_id, coordinator.session_timeout_ms(group.group_id))
                group.rearm()

        return retry_when_failed

    shard.when_free(group.group_id, act)
