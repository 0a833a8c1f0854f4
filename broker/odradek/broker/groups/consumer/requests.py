"""Heartbeats of consumer groups (KIP-848): members join, stay, leave and expire.

A heartbeat carries everything: the member's id, what it subscribes to, what it owns. Its answer says what the member
may own now. Most heartbeats change nothing and are answered at once. The others become records, and are answered once
these are written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from odradek.broker.coordination.shard import DeferredAnswer
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.consumer.assignors import ASSIGNORS
from odradek.broker.groups.consumer.group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from odradek.broker.groups.consumer.planning import Planning
from odradek.broker.groups.consumer.schema import (
    EMPTY_ASSIGNMENT,
    Assignment,
    CurrentValue,
    MemberState,
    MemberValue,
    RecordKind,
)
from odradek.broker.groups.consumer.update import GroupUpdate, is_part_of, sort_unique
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.conversion import Conversion, GroupParts
from odradek.foundation.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    OdradekError,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from odradek.foundation.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1


_NEW_MEMBER: Final = MemberValue(None, None, "", "", (), None, -1, None)


class ConsumerGroupHeartbeat(NamedTuple):
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


class HeartbeatResult(NamedTuple):
    """The answer: the member's epoch, and its assignment if it changed or was asked for."""

    member_id: str
    member_epoch: int
    assigned: Assignment | None = None


Outcome = HeartbeatResult | OdradekError


class _Step(NamedTuple):
    """What a heartbeat changes: the group's update, and the member's state before and after."""

    update: GroupUpdate
    before: CurrentValue
    current: CurrentValue


def check_heartbeat(context: GroupContext, group_id: str, request: ConsumerGroupHeartbeat) -> None:
    """Raises InvalidRequest for fields that contradict each other, UnsupportedAssignor, InvalidRegularExpression.

    Raises UnsupportedVersion where this protocol is not served.
    """
    context.check_consumer_protocol()
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
    configured = context.settings.group_consumer_assignors
    if request.server_assignor is not None and (
        request.server_assignor not in configured or request.server_assignor not in ASSIGNORS
    ):
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(name for name in configured if name in ASSIGNORS)}."
        )
    if request.topic_regex:
        context.patterns.check(request.topic_regex)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest(message)


class ConsumerRequests:
    """The heartbeats of the consumer groups of one shard."""

    def __init__(self, parts: GroupParts, conversion: Conversion) -> None:
        self._groups, self._shard, self._context = parts
        self._planning = Planning(parts)
        self._fences = parts.context.fences
        self._conversion = conversion

    def heartbeat(
        self, group_id: str, request: ConsumerGroupHeartbeat, answer: DeferredAnswer[Outcome]
    ) -> None:
        """Join, stay or leave; the answer is the result, or the error of a write. A refused request raises.

        The caller is within `Shard.when_serving`.
        """
        if request.member_epoch in (LEAVE_EPOCH, LEFT_FOR_NOW_EPOCH):
            self._leave(group_id, request, answer)
            return
        if request.member_epoch == JOIN_EPOCH:
            self._fences.check_may_join(group_id)
        else:
            self._fences.check_may_stay(group_id)
        group, first_records = self._conversion.consumer_group_for(
            group_id, is_join=request.member_epoch == JOIN_EPOCH
        )
        self._check_size(group, request.member_id)
        if not first_records and self._is_quiet(group, request):
            group.deadlines.extend_session(request.member_id, self._context.session_timeout_ms(group_id))
            group.deadlines.wake()
            current = group.current(request.member_id)
            answer(HeartbeatResult(member_id=request.member_id, member_epoch=current.member_epoch))
            return
        member_id = request.member_id or self._context.new_id()
        self._planning.plan(
            group,
            len(request.topic_names or ()) + len(request.owned or ()),
            partial(self._plan_step, group, member_id, request),
            partial(self._write_step, group, first_records, member_id, request, answer),
            answer,
        )

    def _plan_step(self, group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeat) -> _Step:
        """The member's step, and what it changes of the group. Raises as `_admit`."""
        update = GroupUpdate(group, self._context)
        _admit(update, member_id, request)
        before = update.group.current(member_id)
        if request.member_epoch == JOIN_EPOCH and before.member_epoch != JOIN_EPOCH:
            update.forget_current(member_id)
        update.advance(member_id, _member_value(update.group.members.get(member_id), request))
        return _Step(update, before, update.reconcile(member_id, request.owned))

    def _write_step(
        self,
        group: ConsumerGroup,
        first_records: Sequence[EncodedRecord],
        member_id: str,
        request: ConsumerGroupHeartbeat,
        answer: DeferredAnswer[Outcome],
        step: _Step,
    ) -> None:
        group_id = group.group_id
        update, before, current = step
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

        def on_written(error: OdradekError | None) -> None:
            if error is not None:
                self._conversion.cancel_conversion(group_id)
                answer(error)
                return
            written = self._groups.consumer(group_id)
            assert written is not None
            written.topics_seen = update.topics
            if first_records:
                written.start_sessions()  # the former classic members must send heartbeats too
            self._after_step(written, member_id, current, has_moved=current != before)
            answer(result)

        if first_records:
            self._shard.write(group_id, [*first_records, *update.records], on_written)
        elif update.records:
            self._planning.write(group, update, on_written)
        else:
            on_written(None)

    def _check_size(self, group: ConsumerGroup, member_id: str) -> None:
        size_max = self._context.settings.group_consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {size_max} members."
            )

    def _is_quiet(self, group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> bool:
        """Whether the heartbeat says nothing new, and the member owns what it should."""
        if (
            request.topic_names is not None
            or request.topic_regex is not None
            or request.owned is not None
            or request.rebalance_timeout_ms != -1
            or request.rack_id is not None
            or request.server_assignor is not None
            or group.topics_seen is not self._context.images.current.topics
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

    def _after_step(
        self, group: ConsumerGroup, member_id: str, current: CurrentValue, *, has_moved: bool
    ) -> None:
        """Extend the member's session. If it has just been asked to revoke, the time for that begins."""
        group.deadlines.extend_session(member_id, self._context.session_timeout_ms(group.group_id))
        if current.state is not MemberState.UNREVOKED_PARTITIONS:
            group.deadlines.end_step(member_id)
        elif has_moved:
            group.deadlines.end_step(member_id)
            timeout_ms = group.members[member_id].rebalance_timeout_ms
            group.deadlines.set_step(member_id, timeout_ms, current.member_epoch)
        group.deadlines.wake()

    # --- leave and expiry -----------------------------------------------------------------------------------

    def _leave(self, group_id: str, request: ConsumerGroupHeartbeat, answer: DeferredAnswer[Outcome]) -> None:
        group = self._groups.consumer(group_id)
        if group is None:
            raise GroupIdNotFound(f"There is no consumer group {group_id}.")
        member_id = request.member_id
        if request.instance_id is not None:
            _check_instance(group, member_id, request.instance_id)
        else:
            _check_known(group, member_id)
        result = HeartbeatResult(member_id=member_id, member_epoch=request.member_epoch)

        def on_written(error: OdradekError | None) -> None:
            answer(error or result)

        if request.member_epoch == LEFT_FOR_NOW_EPOCH:
            # It keeps its partitions until it is back or its session ends.
            away = group.current(member_id)._replace(
                member_epoch=LEFT_FOR_NOW_EPOCH, pending_revocation=EMPTY_ASSIGNMENT
            )
            update = GroupUpdate(group, self._context)
            update.put(RecordKind.CURRENT, member_id, away)
            self._shard.write(group_id, update.records, on_written)
        else:
            self.fence(group, [member_id], on_written)

    def fence(self, group: ConsumerGroup, member_ids: Sequence[str], on_written: OnWritten) -> None:
        """Remove members; the group becomes a classic one when only members of that protocol are left."""
        if self._conversion.may_become_classic(group, without=member_ids):
            self._conversion.to_classic_without(group, member_ids, on_written)
            return

        def plan() -> GroupUpdate:
            update = GroupUpdate(group, self._context)
            for member_id in member_ids:
                update.remove_member(member_id)
            update.refresh_topics()
            update.bump_epoch()
            return update

        self._planning.plan(
            group, 0, plan, lambda update: self._planning.write(group, update, on_written), on_written
        )

    def expire_members(self, group: ConsumerGroup) -> None:
        """Fence the members whose session, or time for a step, is over."""

        def is_current() -> bool:
            return self._groups.get(group.group_id) is group

        def act() -> None:
            if not is_current():
                return
            due = group.deadlines.take_due(lambda member_id: group.current(member_id).member_epoch)
            fenced = sorted(member_id for member_id in due if member_id in group.members)
            if fenced:
                logger.info(
                    "group %r: members %s are fenced, their time is up", group.group_id, ", ".join(fenced)
                )
                self.fence(group, fenced, partial(on_written, fenced))

        def on_written(fenced: Sequence[str], error: OdradekError | None) -> None:
            if error is not None and is_current():
                for member_id in fenced:
                    group.deadlines.extend_session(
                        member_id, self._context.session_timeout_ms(group.group_id)
                    )
                group.deadlines.rearm()

        self._shard.when_free(group.group_id, act)


def _admit(update: GroupUpdate, member_id: str, request: ConsumerGroupHeartbeat) -> None:
    """Admit the member; a static member that returns takes over its old member id's records.

    Raises UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId.
    """
    group = update.group
    is_join = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        if not is_join:
            _check_known(group, member_id)
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
                f"the instance id is in use by member {existing}, which has not left."
            )
        update.replace_member(existing, member_id)


def _check_known(group: ConsumerGroup, member_id: str) -> None:
    if member_id not in group.members:
        raise UnknownMemberId(f"Member {member_id} is not a member of group {group.group_id}.")


def _check_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> None:
    existing = group.id_of_instance(instance_id)
    if existing is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown in group {group.group_id}; join again.")
    if existing != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing}."
        )


def _check_epoch(group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeat) -> None:
    """Raises FencedMemberEpoch unless the epoch is the member's, or its last one.

    A member at its last epoch that owns nothing beyond its assignment has missed the answer with the new epoch.
    """
    current = group.current(member_id)
    epoch = request.member_epoch
    if epoch == current.member_epoch:
        return
    if epoch == current.previous_member_epoch and is_part_of(request.owned, current.assigned):
        return
    raise FencedMemberEpoch(
        f"The member is at epoch {epoch}, the coordinator has it at {current.member_epoch}. The member "
        "must abandon all its partitions and rejoin."
    )


def _member_value(known: MemberValue | None, request: ConsumerGroupHeartbeat) -> MemberValue:
    known = known or _NEW_MEMBER
    names, timeout_ms = request.topic_names, request.rebalance_timeout_ms
    return MemberValue(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=known.topic_names if names is None else sort_unique(names),
        topic_regex=known.topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
    )
