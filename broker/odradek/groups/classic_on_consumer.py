"""Members of a consumer group that still speak the classic protocol: their requests, served by the new one.

To such a member the group's epochs are generations and the broker is the leader: a join takes the member's
next step towards its target, a sync gives it what it may own, a heartbeat tells it to join again when there
is a next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
from odradek.groups import conversion
from odradek.groups.answers import Answer
from odradek.groups.consumer_draft import Draft
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.consumer_requests import advance_group, fence
from odradek.groups.consumer_schema import ClassicProtocols, CurrentValue, MemberState, MemberValue
from odradek.groups.members import UNKNOWN_MEMBER, Departure, JoinRequest, JoinResult, SyncResult
from odradek.groups.shard import Shard
from odradek.protocol.consumer import PROTOCOL_TYPE, Subscription, parse_subscription

if TYPE_CHECKING:
    from odradek.groups.routing import Routing


def join(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    request: JoinRequest,
    answer: Answer[JoinResult],
) -> None:
    """Let the member take its next step; answered once that is written."""
    try:
        _join(coordinator, shard, group, request, answer)
    except RequestError as error:
        answer(JoinResult(error=error, member_id=request.member_id))


def _join(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    request: JoinRequest,
    answer: Answer[JoinResult],
) -> None:
    member_id = request.member_id or coordinator.new_id()
    subscription = _check_join(coordinator, group, request)
    if request.requires_known_member_id:
        required = MemberIdRequired(f"join again as {member_id}", member_id=member_id)
        answer(JoinResult(error=required, member_id=member_id))
        return
    draft = Draft(group, coordinator, shard)
    replaced = _admit(draft, member_id, request)
    known = draft.group.members.get(member_id)
    advance_group(draft, member_id, _member_value(known, request, subscription))
    topics = coordinator.images.current.topics
    current = draft.reconcile(member_id, conversion.ids_of(subscription.owned_partitions, topics))
    if replaced is not None and conversion.may_become_classic(
        coordinator, group, without=[replaced], joining=1
    ):
        _join_as_the_last_to_change(coordinator, shard, group, draft, member_id, answer)
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
        written = shard.groups[group.group_id]
        assert isinstance(written, ConsumerGroup)
        written.topics_seen = topics
        written.extend_session(member_id, request.session_timeout_ms)
        # It must sync before the rebalance timeout is over.
        written.step_deadlines.pop(member_id, None)
        written.set_step_deadline(member_id, request.rebalance_timeout_ms, current.member_epoch)
        shard.wake(written)
        answer(result)

    if draft.records:
        shard.write_group(group.group_id, draft.records, on_written)
    else:
        on_written(None)


def _check_join(coordinator: Routing, group: ConsumerGroup, request: JoinRequest) -> Subscription:
    """The member's subscription. Raises GroupMaxSizeReached, InconsistentGroupProtocol."""
    size_max = coordinator.settings.group_consumer_max_size
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


def _admit(draft: Draft, member_id: str, request: JoinRequest) -> str | None:
    """Let the member in; gives the id of the static member that it replaces, if any. Raises as `_member`."""
    group = draft.group
    if request.instance_id is None:
        return None
    existing = group.id_of_instance(request.instance_id)
    if request.member_id != UNKNOWN_MEMBER:
        _member(group, member_id, request.instance_id)
        return None
    if existing is not None:
        draft.replace_member(existing, member_id)
    return existing


def _member_value(known: MemberValue | None, request: JoinRequest, subscription: Subscription) -> MemberValue:
    return MemberValue(
        instance_id=request.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id or known is None else known.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex=None,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=None if known is None else known.server_assignor,
        classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
    )


def _join_as_the_last_to_change(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    draft: Draft,
    member_id: str,
    answer: Answer[JoinResult],
) -> None:
    """The last member of the consumer protocol comes back speaking the classic one: so does the
    group then.
    """
    after = draft.group
    targets = {other: (member, after.target(other)) for other, member in after.members.items()}
    classic = conversion.classic_group(coordinator, shard, group.group_id, after.epoch, targets)

    def on_written(error: OdradekError | None) -> None:
        if error is not None:
            answer(JoinResult(error=error, member_id=member_id))
            return
        answer(
            JoinResult(
                member_id=member_id,
                generation=classic.generation,
                protocol_type=classic.protocol_type,
                protocol=classic.protocol,
            )
        )

    # A new target has to reach everybody: then they rebalance as a classic group does.
    conversion.write_classic(shard, group, classic, on_written, rebalance=after.epoch != group.epoch)


def sync(
    coordinator: Routing,
    group: ConsumerGroup,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
) -> SyncResult:
    """What the member may own. Raises UnknownMemberId, FencedInstanceId, IllegalGeneration,
    RebalanceInProgress, …
    """
    member, classic = _member(group, member_id, instance_id)
    current = _at_generation(group, member_id, generation)
    chosen, metadata = classic.protocols[0]
    if protocol_type not in (None, PROTOCOL_TYPE) or protocol not in (None, chosen):
        raise InconsistentGroupProtocol(f"the member was told to use {chosen!r}, and uses {protocol!r}")
    if group.epoch > current.member_epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        group.set_step_deadline(member_id, member.rebalance_timeout_ms, current.member_epoch)
        raise RebalanceInProgress(f"the group {group.group_id!r} rebalances; join again")
    group.step_deadlines.pop(member_id, None)
    group.extend_session(member_id, classic.session_timeout_ms)
    version = parse_subscription(metadata).version
    return SyncResult(
        protocol_type=PROTOCOL_TYPE,
        protocol=chosen,
        assignment=conversion.assignment_bytes(coordinator, current.assigned, version=version),
    )


def heartbeat(group: ConsumerGroup, *, member_id: str, instance_id: str | None, generation: int) -> None:
    """Keep the member alive. Raises RebalanceInProgress when there is a next step to take, and as `sync`."""
    member, classic = _member(group, member_id, instance_id)
    current = _at_generation(group, member_id, generation)
    group.extend_session(member_id, classic.session_timeout_ms)
    if (
        current.member_epoch < group.epoch
        or current.state is MemberState.UNREVOKED_PARTITIONS
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member_id))
    ):
        group.set_step_deadline(member_id, member.rebalance_timeout_ms, current.member_epoch)
        group.rearm()
        raise RebalanceInProgress(f"the group {group.group_id!r} rebalances; join again")


def _waits_for_others(group: ConsumerGroup, member_id: str) -> bool:
    """Whether something of the member's target is still held by somebody."""
    assigned = group.current(member_id).assigned
    return any(
        (topic_id, partition) in group.owners
        for topic_id, partitions in group.target(member_id).items()
        for partition in partitions - assigned.get(topic_id, frozenset())
    )


def leave(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    members: Sequence[tuple[str, str | None]],
    answer: Answer[list[Departure]],
) -> None:
    """Take members of either protocol out (an administrator may name any); answered once that is written."""
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

    fence(coordinator, shard, group, list(leaving), on_written)


def _leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> str:
    """The id of who is to leave; an empty id with an instance id means whoever has that. Raises as `_member`."""
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
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"the group {group.group_id!r} has no member {member_id!r}; join again")
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
