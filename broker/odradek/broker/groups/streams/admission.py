"""Whether a member may be in its Streams group as it says it is, and what the group learns of it."""

from __future__ import annotations

from typing import Final

from odradek.broker.groups.streams.group import LEFT_FOR_NOW_EPOCH, StreamsGroup, TaskOffsets
from odradek.broker.groups.streams.heartbeats import JOIN_EPOCH, StreamsGroupHeartbeat
from odradek.broker.groups.streams.schema import StreamsMemberValue
from odradek.broker.groups.streams.tasks import TargetTasks, is_within, list_tasks
from odradek.broker.groups.streams.topology import ConfiguredTopology
from odradek.broker.groups.streams.update import StreamsUpdate
from odradek.foundation.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
)

_NEW_MEMBER: Final = StreamsMemberValue()


def admit(update: StreamsUpdate, request: StreamsGroupHeartbeat) -> None:
    """Admit the member; a static member that returns takes over its old member id's records.

    Raises UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId.
    """
    group, member_id = update.group, request.member_id
    if request.member_epoch != JOIN_EPOCH:
        if request.instance_id is not None:
            check_instance(group, member_id, request.instance_id)
        group.member(member_id)
        _check_epoch(group, request)
        return
    existing = None if request.instance_id is None else group.id_of_instance(request.instance_id)
    if existing is None:
        return
    if group.current(existing).member_epoch != LEFT_FOR_NOW_EPOCH:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
            f"instance id is owned by {existing} member."
        )
    update.replace_member(existing, member_id)


def check_instance(group: StreamsGroup, member_id: str, instance_id: str) -> None:
    """Raises UnknownMemberId or FencedInstanceId."""
    existing = group.id_of_instance(instance_id)
    if existing is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if existing != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing}."
        )


def _check_epoch(group: StreamsGroup, request: StreamsGroupHeartbeat) -> None:
    """Raises FencedMemberEpoch unless the epoch is the member's, or its last one.

    A member at its last epoch that runs nothing beyond its assignment has missed the answer with the new epoch.
    """
    current, epoch = group.current(request.member_id), request.member_epoch
    if epoch == current.member_epoch:
        return
    owned, assigned = request.owned, current.assigned
    if (
        epoch == current.previous_member_epoch
        and epoch < current.member_epoch
        and owned is not None
        and all(is_within(tasks, held) for tasks, held in zip(owned, assigned, strict=True))
    ):
        return
    word = "greater" if epoch > current.member_epoch else "smaller"
    raise FencedMemberEpoch(
        f"The streams group member has a {word} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.member_epoch}). The member must abandon all its partitions and rejoin."
    )


def check_owned(configured: ConfiguredTopology, owned: TargetTasks | None) -> None:
    """Raises InvalidRequest for tasks that the topology does not have."""
    if owned is None or not configured.is_ready or configured.subtopologies is None:
        return
    for tasks in owned:
        for subtopology_id, number in list_tasks(tasks):
            subtopology = configured.subtopologies.get(subtopology_id)
            if subtopology is None:
                raise InvalidRequest(f"Subtopology {subtopology_id} does not exist in the topology.")
            if not 0 <= number < subtopology.tasks:
                raise InvalidRequest(
                    f"Task {number} for subtopology {subtopology_id} is invalid. Number of tasks for this subtopology: "
                    f"{subtopology.tasks}"
                )


def member_value(known: StreamsMemberValue | None, request: StreamsGroupHeartbeat) -> StreamsMemberValue:
    is_join = request.member_epoch == JOIN_EPOCH
    known = known or _NEW_MEMBER
    timeout_ms, endpoint = request.rebalance_timeout_ms, request.user_endpoint
    return StreamsMemberValue(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=known.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=known.process_id if request.process_id is None else request.process_id,
        user_endpoint=known.user_endpoint if endpoint is None and not is_join else endpoint,
        client_tags=known.client_tags if request.client_tags is None else request.client_tags,
    )


def keep_known_tasks(configured: ConfiguredTopology, offsets: TaskOffsets | None) -> TaskOffsets | None:
    """The changelog offsets that a member reports, as far as the group has such tasks; None where it reports none."""
    subtopologies = configured.subtopologies
    if offsets is None or subtopologies is None:
        return None
    return {
        (subtopology_id, number): offset
        for (subtopology_id, number), offset in offsets.items()
        if subtopology_id in subtopologies and 0 <= number < subtopologies[subtopology_id].tasks
    }
