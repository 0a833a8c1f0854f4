"""Members of a consumer group that still speak the classic protocol: their requests, served by the new protocol.

To such a member the group's epochs are generations and the broker is the leader. A join takes the member's next step
towards its target. A sync gives it what it may own. A heartbeat asks it to join again when there is a next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.broker.groups.classic.members import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    AnswerLeave,
    Departure,
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from odradek.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupHost
from odradek.broker.groups.consumer.planning import Planning
from odradek.broker.groups.consumer.schema import ClassicProtocols, CurrentValue, MemberState, MemberValue
from odradek.broker.groups.consumer.update import GroupUpdate, sort_unique
from odradek.broker.groups.conversion import Conversion, GroupParts, ids_of
from odradek.foundation.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    MemberIdRequired,
    OdradekError,
    RebalanceInProgress,
    RequestError,
    UnknownMemberId,
)
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.consumer import PROTOCOL_TYPE, Subscription, parse_subscription

# A topic in a subscription has at least its length and a letter.
_NAME_BYTES: Final = 8


class _Step(NamedTuple):
    """What a join changes: the group's update, the static member that it replaces, and the member's new state."""

    update: GroupUpdate
    replaced: str | None
    current: CurrentValue


class ClassicMembers:
    """The classic members of the consumer groups of one shard."""

    def __init__(self, parts: GroupParts, conversion: Conversion, host: ConsumerGroupHost) -> None:
        self._groups, self._shard, self._context = parts
        self._planning = Planning(parts)
        self._conversion = conversion
        self._host = host

    def join(self, group: ConsumerGroup, request: JoinRequest, answer: AnswerJoin) -> None:
        """Let the member take its next step; answered once that is written. Raises as `_check_join` and `_member`."""
        member_id = request.member_id or self._context.new_id()
        metadata_bytes = sum(len(metadata) for _, metadata in request.protocols)
        self._planning.plan(
            group,
            metadata_bytes // _NAME_BYTES,
            partial(self._plan_step, group, member_id, request),
            partial(self._write_step, group, member_id, request, answer),
            lambda error: answer(JoinResult(error=error, member_id=member_id)),
        )

    def _plan_step(self, group: ConsumerGroup, member_id: str, request: JoinRequest) -> _Step | None:
        """The member's step; None for one that has to join again with its id. Raises as `_check_join`, `_member`."""
        subscription = self._check_join(group, request)
        if request.requires_known_member_id:
            return None
        update = GroupUpdate(group, self._context)
        replaced = _admit(update, member_id, request)
        known = update.group.members.get(member_id)
        update.advance(member_id, _member_value(known, request, subscription))
        owned = ids_of(subscription.owned_partitions, update.topics)
        return _Step(update, replaced, update.reconcile(member_id, owned))

    def _write_step(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: JoinRequest,
        answer: AnswerJoin,
        step: _Step | None,
    ) -> None:
        if step is None:
            required = MemberIdRequired(f"join again as {member_id}", member_id=member_id)
            answer(JoinResult(error=required, member_id=member_id))
            return
        update, replaced, current = step
        if replaced is not None and self._conversion.may_become_classic(group, without=[replaced], joining=1):
            self._join_as_classic_group(group, update, member_id, answer)
            return
        result = JoinResult(
            member_id=member_id,
            generation=current.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol=request.protocols[0][0],
        )

        def on_written(error: OdradekError | None) -> None:
            if error is not None:
                answer(JoinResult(error=error, member_id=member_id))
                return
            written = self._groups.consumer(group.group_id)
            assert written is not None
            written.topics_seen = update.topics
            written.deadlines.extend_session(member_id, request.session_timeout_ms)
            # It must sync before the rebalance timeout is over.
            written.deadlines.end_step(member_id)
            written.deadlines.set_step(member_id, request.rebalance_timeout_ms, current.member_epoch)
            written.deadlines.wake()
            answer(result)

        if update.records:
            self._planning.write(group, update, on_written)
        else:
            on_written(None)

    def _check_join(self, group: ConsumerGroup, request: JoinRequest) -> Subscription:
        """The member's subscription. Raises GroupMaxSizeReached, InconsistentGroupProtocol."""
        size_max = self._context.settings.group_consumer_max_size
        if len(group.members) >= size_max and request.member_id not in group.members:
            raise GroupMaxSizeReached(
                f"the group {group.group_id!r} is full: group.consumer.max.size is {size_max}"
            )
        names = {name for name, _ in request.protocols}
        for member in group.members.values():
            if member.classic is not None:
                names &= {name for name, _ in member.classic.protocols}
        if request.protocol_type != PROTOCOL_TYPE or not names:
            raise InconsistentGroupProtocol(
                f"the group {group.group_id!r} is one of consumers and shares no protocol with this member"
            )
        try:
            return parse_subscription(request.protocols[0][1])
        except InvalidRequest as error:
            raise InconsistentGroupProtocol(f"the member's subscription cannot be read: {error}") from error

    def _join_as_classic_group(
        self, group: ConsumerGroup, update: GroupUpdate, member_id: str, answer: AnswerJoin
    ) -> None:
        """Make the group classic: its last member of the consumer protocol returns with the classic one."""
        classic = self._conversion.classic_group(update.group)
        joined = JoinResult(
            member_id=member_id,
            generation=update.group.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol=classic.rebalance.protocol,
        )

        def on_written(error: OdradekError | None) -> None:
            answer(joined if error is None else JoinResult(error=error, member_id=member_id))

        # A new target has to reach all members: then they rebalance as a classic group does.
        self._conversion.write_classic(
            group, classic, on_written, rebalance=update.group.epoch != group.epoch
        )

    def sync(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult:
        """The member's present assignment. Raises UnknownMemberId, IllegalGeneration, RebalanceInProgress, …"""
        member, classic = _member(group, request.member_id, request.instance_id)
        current = _at_generation(group, request.member_id, request.generation)
        chosen, metadata = classic.protocols[0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol not in (None, chosen):
            raise InconsistentGroupProtocol(
                f"the member was assigned {chosen!r}, and uses {request.protocol!r}"
            )
        if group.epoch > current.member_epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
            group.deadlines.set_step(request.member_id, member.rebalance_timeout_ms, current.member_epoch)
            raise RebalanceInProgress(f"the group {group.group_id!r} rebalances; join again")
        group.deadlines.end_step(request.member_id)
        group.deadlines.extend_session(request.member_id, classic.session_timeout_ms)
        version = parse_subscription(metadata).version
        return SyncResult(
            protocol_type=PROTOCOL_TYPE,
            protocol=chosen,
            assignment=self._conversion.assignment_bytes(current.assigned, version=version),
        )

    def heartbeat(
        self, group: ConsumerGroup, *, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Keep the member alive. Raises RebalanceInProgress when there is a next step to take, and as `sync`."""
        member, classic = _member(group, member_id, instance_id)
        current = _at_generation(group, member_id, generation)
        group.deadlines.extend_session(member_id, classic.session_timeout_ms)
        if (
            current.member_epoch < group.epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (
                current.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member_id)
            )
        ):
            group.deadlines.set_step(member_id, member.rebalance_timeout_ms, current.member_epoch)
            group.deadlines.rearm()
            raise RebalanceInProgress(f"the group {group.group_id!r} rebalances; join again")

    def leave(
        self, group: ConsumerGroup, members: Sequence[tuple[str, str | None]], answer: AnswerLeave
    ) -> None:
        """Remove members of either protocol (an administrator may name any); answered once that is written."""
        departures: list[Departure] = []
        leaving: dict[str, None] = {}
        for member_id, instance_id in members:
            departure = Departure(member_id, instance_id)
            try:
                leaving[_leaving_member(group, member_id, instance_id)] = None
            except RequestError as error:
                departure = departure._replace(error=error)
            departures.append(departure)
        if not leaving:
            answer(departures)
            return

        def on_written(error: OdradekError | None) -> None:
            if error is None:
                answer(departures)
            else:
                answer([departure._replace(error=departure.error or error) for departure in departures])

        self._host.fence_members(group, list(leaving), on_written)


def _admit(update: GroupUpdate, member_id: str, request: JoinRequest) -> str | None:
    """Let the member in; gives the id of the static member that it replaces, if any. Raises as `_member`."""
    group = update.group
    if request.instance_id is None:
        return None
    existing = group.id_of_instance(request.instance_id)
    if request.member_id != UNKNOWN_MEMBER:
        _member(group, member_id, request.instance_id)
        return None
    if existing is not None:
        update.replace_member(existing, member_id)
    return existing


def _member_value(known: MemberValue | None, request: JoinRequest, subscription: Subscription) -> MemberValue:
    return MemberValue(
        instance_id=request.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id or known is None else known.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=sort_unique(subscription.topics),
        topic_regex=None,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=None if known is None else known.server_assignor,
        classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
    )


def _waits_for_others(group: ConsumerGroup, member_id: str) -> bool:
    """Whether a member still holds something of this member's target."""
    assigned = group.current(member_id).assigned
    return any(
        (topic_id, partition) in group.owners
        for topic_id, partitions in group.target(member_id).items()
        for partition in partitions - assigned.get(topic_id, frozenset())
    )


def _leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> str:
    """The id of the member that leaves; an instance id alone names a static member. Raises as `_member`."""
    if instance_id is None:
        if member_id not in group.members:
            raise UnknownMemberId(f"the group {group.group_id!r} has no member {member_id!r}")
        return member_id
    return _member_of_instance(group, instance_id, member_id or None)


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[MemberValue, ClassicProtocols]:
    """The member. Raises UnknownMemberId (also when it speaks the consumer protocol), FencedInstanceId."""
    if instance_id is not None:
        _member_of_instance(group, instance_id, member_id)
    member = group.member(member_id)
    if member.classic is None:
        raise UnknownMemberId(f"the member {member_id!r} does not use the classic protocol")
    return member, member.classic


def _member_of_instance(group: ConsumerGroup, instance_id: str, member_id: str | None) -> str:
    """The id of the static member, which must be `member_id` unless that is None."""
    existing = group.id_of_instance(instance_id)
    if existing is None:
        raise UnknownMemberId(f"the group {group.group_id!r} has no static member {instance_id!r}")
    if member_id is not None and existing != member_id:
        raise FencedInstanceId(f"another member took over the instance id {instance_id!r}")
    return existing


def _at_generation(group: ConsumerGroup, member_id: str, generation: int) -> CurrentValue:
    current = group.current(member_id)
    if generation != current.member_epoch:
        raise IllegalGeneration(f"the member is at generation {current.member_epoch}, not {generation}")
    return current
