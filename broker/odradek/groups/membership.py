"""Requests of members that speak the classic protocol: join, sync, heartbeat, leave.

Each function takes the coordinator and gives a result, or something to await for one where the answer must
wait for others. What consumer groups need for such members is imported when first needed. Failures are
raised, except of joins and syncs: their answers have fields beside the error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.foundation.errors import (
    InvalidSessionTimeout,
    OdradekError,
    RequestError,
    UnknownMemberId,
)
from odradek.groups import fencing
from odradek.groups.answers import Answer
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.group import ClassicGroup
from odradek.groups.members import UNKNOWN_MEMBER, Departure, JoinRequest, JoinResult, SyncResult
from odradek.groups.shard import Shard

if TYPE_CHECKING:
    from odradek.groups.routing import Routing


def join(coordinator: Routing, group_id: str, request: JoinRequest) -> JoinResult | Awaitable[JoinResult]:
    """Join or rejoin; the answer comes when the rebalance does."""
    answer: Answer[JoinResult] = Answer()
    try:
        shard = coordinator.named_shard(group_id)
        _check_session_timeout(coordinator, request.session_timeout_ms)
        shard.when_free(group_id, lambda: _join(coordinator, shard, group_id, request, answer))
    except RequestError as error:
        answer(JoinResult(error=error, member_id=request.member_id))
    return answer.get()


def _check_session_timeout(coordinator: Routing, session_timeout_ms: int) -> None:
    lowest = coordinator.settings.group_min_session_timeout_ms
    highest = coordinator.settings.group_max_session_timeout_ms
    if not lowest <= session_timeout_ms <= highest:
        raise InvalidSessionTimeout(
            f"the session timeout of {session_timeout_ms} ms is not between group.min.session.timeout.ms "
            f"= {lowest} "
            f"and group.max.session.timeout.ms = {highest}"
        )


def _join(
    coordinator: Routing,
    shard: Shard,
    group_id: str,
    request: JoinRequest,
    answer: Answer[JoinResult],
) -> None:
    try:
        shard.check_serving()
        fencing.check_may_join(coordinator, group_id)
    except RequestError as failure:
        answer(JoinResult(error=failure, member_id=request.member_id))
        return
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        if not group.is_empty:
            from odradek.groups import classic_on_consumer

            classic_on_consumer.join(coordinator, shard, group, request, answer)
            return
        _join_after_removal(coordinator, shard, group, request, answer)
        return
    if group is None and request.member_id != UNKNOWN_MEMBER:
        error = UnknownMemberId(
            f"there is no group {group_id!r} with a member {request.member_id!r}; join again"
        )
        answer(JoinResult(error=error, member_id=request.member_id))
        return
    shard.classic_group(group_id).join(request, answer)


def _join_after_removal(
    coordinator: Routing,
    shard: Shard,
    group: ConsumerGroup,
    request: JoinRequest,
    answer: Answer[JoinResult],
) -> None:
    """An empty consumer group gives way to a classic one of the same id."""

    def on_written(error: OdradekError | None) -> None:
        if error is not None:
            answer(JoinResult(error=error, member_id=request.member_id))
        else:
            shard.classic_group(group.group_id)
            _join(coordinator, shard, group.group_id, request, answer)

    shard.write_group(group.group_id, group.tombstones(), on_written)


def sync(
    coordinator: Routing,
    group_id: str,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
    assignments: Mapping[str, bytes],
) -> SyncResult | Awaitable[SyncResult]:
    """Ask for the assignment of this generation; the leader brings everybody's."""
    answer: Answer[SyncResult] = Answer()

    def act() -> None:
        group = shard.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            group.sync(
                member_id=member_id,
                instance_id=instance_id,
                generation=generation,
                protocol_type=protocol_type,
                protocol=protocol,
                assignments=assignments,
                answer=answer,
            )
            return
        from odradek.groups import classic_on_consumer

        try:
            shard.check_serving()
            if group is None:
                raise UnknownMemberId(f"there is no group {group_id!r}; join again")
            answer(
                classic_on_consumer.sync(
                    coordinator,
                    group,
                    member_id=member_id,
                    instance_id=instance_id,
                    generation=generation,
                    protocol_type=protocol_type,
                    protocol=protocol,
                )
            )
        except RequestError as error:
            answer(SyncResult(error=error))

    try:
        shard = coordinator.named_shard(group_id)
        shard.when_free(group_id, act)
    except RequestError as error:
        answer(SyncResult(error=error))
    return answer.get()


def heartbeat(
    coordinator: Routing,
    group_id: str,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> None:
    """Keep a member alive. Raises RebalanceInProgress when it must join again, UnknownMemberId,
    IllegalGeneration, …

    While the group changes from one protocol to the other its members are taken as the old one has them.
    """
    group = coordinator.named_shard(group_id).groups.get(group_id)
    fencing.check_may_stay(coordinator, group_id)
    if isinstance(group, ClassicGroup):
        group.heartbeat(member_id=member_id, instance_id=instance_id, generation=generation)
    elif group is not None:
        from odradek.groups import classic_on_consumer

        classic_on_consumer.heartbeat(
            group, member_id=member_id, instance_id=instance_id, generation=generation
        )
    else:
        raise UnknownMemberId(f"there is no group {group_id!r}; join again")


def leave(
    coordinator: Routing, group_id: str, members: Sequence[tuple[str, str | None]]
) -> list[Departure] | Awaitable[list[Departure]]:
    """Take members out, each by (member id, instance id). Raises what concerns the whole group."""
    answer: Answer[list[Departure]] = Answer()
    shard = coordinator.named_shard(group_id)

    def act() -> None:
        try:
            shard.check_serving()
        except RequestError as error:
            answer([Departure(member_id, instance_id, error) for member_id, instance_id in members])
            return
        group = shard.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            answer(_leave_classic(group, members))
        elif group is not None:
            from odradek.groups import classic_on_consumer

            classic_on_consumer.leave(coordinator, shard, group, members, answer)
        else:
            unknown = UnknownMemberId(f"there is no group {group_id!r}")
            answer([Departure(member_id, instance_id, unknown) for member_id, instance_id in members])

    shard.when_free(group_id, act)
    return answer.get()


def _leave_classic(group: ClassicGroup, members: Sequence[tuple[str, str | None]]) -> list[Departure]:
    departures = []
    for member_id, instance_id in members:
        try:
            group.leave(member_id, instance_id)
            departures.append(Departure(member_id, instance_id))
        except RequestError as error:
            departures.append(Departure(member_id, instance_id, error))
    if any(departure.error is None for departure in departures):
        group.after_leave()
    return departures
