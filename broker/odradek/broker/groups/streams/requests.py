"""Heartbeats of Streams groups (KIP-1071): members join, stay, leave and expire.

A heartbeat carries everything: the member's id, what it runs, and the topology when it joins. Its answer says what the
member should run, and what hinders the group. Most heartbeats change nothing and are answered at once. The others
become records, and are answered once these are written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from odradek.broker.coordination.shard import DeferredAnswer
from odradek.broker.coordination.timers import TimerHost
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.classic.group import GroupState
from odradek.broker.groups.classic.members import AnswerJoin, JoinRequest
from odradek.broker.groups.consumer.planning import Planning
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.conversion import GroupParts
from odradek.broker.groups.group import Group
from odradek.broker.groups.schema import StreamsRecordKind
from odradek.broker.groups.streams.endpoints import EndpointPartitions, list_endpoints
from odradek.broker.groups.streams.group import LEFT_FOR_NOW_EPOCH, StreamsGroup
from odradek.broker.groups.streams.reconciliation import is_reconciled
from odradek.broker.groups.streams.schema import (
    ClientTag,
    StreamsCurrentValue,
    StreamsMemberValue,
    TaskState,
    UserEndpoint,
    decode_streams_key,
    decode_streams_value,
)
from odradek.broker.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    TargetTasks,
    TaskId,
    is_within,
    list_tasks,
)
from odradek.broker.groups.streams.topology import (
    ConfiguredTopology,
    Status,
    StatusCode,
    TopicInfo,
    Topology,
)
from odradek.broker.groups.streams.update import StreamsUpdate, assignment_configs
from odradek.foundation.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    OdradekError,
    StreamsInvalidTopology,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from odradek.foundation.limits import STREAMS_SUBTOPOLOGIES_MAX
from odradek.foundation.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1

_NEW_MEMBER: Final = StreamsMemberValue()
_DELAYED_BY_START: Final = Status(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
)
_DELAYED_BY_INTERVAL: Final = Status(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
)


class StreamsGroupHeartbeat(NamedTuple):
    """A heartbeat; None (and -1 for the timeout) means as before. `owned` is None unless all three kinds are given."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: TargetTasks | None = None
    owned_kinds: int = 0  # of the three kinds of tasks, those given
    process_id: str | None = None
    user_endpoint: UserEndpoint | None = None
    client_tags: tuple[ClientTag, ...] | None = None
    offsets: Mapping[TaskId, int] | None = None
    end_offsets: Mapping[TaskId, int] | None = None
    shutdown_application: bool = False
    endpoint_epoch: int = -1
    client_id: str = ""
    client_host: str = ""


class StreamsHeartbeatResult(NamedTuple):
    """The answer: the member's epoch, and its tasks if they changed or it joins.

    `endpoints` are there when the member knows those of another epoch. `missing` are the topics to make.
    """

    member_id: str
    member_epoch: int
    statuses: tuple[Status, ...] = ()
    assigned: HeldTasks | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointPartitions] | None = None
    missing: tuple[TopicInfo, ...] = ()


StreamsOutcome = StreamsHeartbeatResult | OdradekError


class StreamsHost(TimerHost, Protocol):
    """The state machine of a shard, as its Streams groups need it."""

    def join_after_removal(self, group: Group, request: JoinRequest, answer: AnswerJoin) -> None: ...


class _Step(NamedTuple):
    """What a heartbeat changes: the group's update, and the member before and after."""

    update: StreamsUpdate
    before: StreamsCurrentValue
    current: StreamsCurrentValue
    configured: ConfiguredTopology
    statuses: tuple[Status, ...]
    has_new_epoch: bool
    has_other_endpoint: bool


def check_streams_heartbeat(context: GroupContext, group_id: str, request: StreamsGroupHeartbeat) -> None:
    """Raises InvalidRequest for fields that contradict each other, StreamsInvalidTopology, UnsupportedVersion."""
    context.check_streams_protocol()
    epoch, topology = request.member_epoch, request.topology
    if topology is not None:
        is_plain = not any(one.source_topic_regex for one in topology.subtopologies)
        _require(is_plain, "Regular expressions for source topics are not supported yet.")
    _require(request.member_id != "", "MemberId can't be empty.")
    _require(group_id != "", "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        owned = request.owned or TargetTasks()
        for kind, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), owned, strict=True):
            _require(not tasks, f"{kind} must be empty when (re-)joining.")
        _require(topology is not None, "Topology must be non-null when (re-)joining.")
        if topology is not None:
            _check_topology(topology)
    elif epoch == LEFT_FOR_NOW_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    _require(epoch >= LEFT_FOR_NOW_EPOCH, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    _require(request.owned_kinds in (0, 3), "If one task-type is non-null, all must be non-null.")
    if epoch != JOIN_EPOCH:
        _require(topology is None, "Topology can only be provided when (re-)joining.")


def _check_topology(topology: Topology) -> None:
    for one in topology.subtopologies:
        for topic in one.state_changelog_topics:
            if topic.partitions != 0:
                raise StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
    if topology.epoch < 0:
        raise StreamsInvalidTopology(f"the topology's epoch {topology.epoch} is negative")
    ids = {one.subtopology_id for one in topology.subtopologies}
    if len(ids) < len(topology.subtopologies):
        raise StreamsInvalidTopology("two subtopologies of the topology have one id")
    if len(ids) > STREAMS_SUBTOPOLOGIES_MAX:
        raise StreamsInvalidTopology(
            f"the topology has {len(ids)} subtopologies, more than {STREAMS_SUBTOPOLOGIES_MAX}; split the application"
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest(message)


class StreamsRequests:
    """The heartbeats of the Streams groups of one shard, and the host of these groups."""

    def __init__(self, parts: GroupParts, host: StreamsHost) -> None:
        self._groups, self._shard, self._context = parts
        self._planning = Planning(parts)
        self._fences = parts.context.fences
        self.now, self.wake = host.now, host.wake
        self.join_after_removal = host.join_after_removal

    def session_timeout_ms(self, group_id: str) -> int:
        """The time that a member may send no heartbeat."""
        return self._context.streams_value("session.timeout.ms", group_id)

    # --- records --------------------------------------------------------------------------------------------

    def replay(self, kind: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. Raises CorruptRecord."""
        _, group_id, name = decode_streams_key(kind, key)
        decoded = None if value is None else decode_streams_value(kind, value)
        group = self._groups.streams(group_id)
        if group is None:
            if decoded is None:
                return
            replaced = self._groups.get(group_id)
            if replaced is not None:
                self._shard.stop_timer(replaced.timed)
            group = self._groups[group_id] = StreamsGroup(group_id, self)
        group.apply(kind, name, decoded)
        if kind == StreamsRecordKind.GROUP and decoded is None:
            self._shard.stop_timer(group.timed)
            del self._groups[group_id]

    # --- heartbeats -----------------------------------------------------------------------------------------

    def heartbeat(
        self, group_id: str, request: StreamsGroupHeartbeat, answer: DeferredAnswer[StreamsOutcome]
    ) -> None:
        """Join, stay or leave; the answer is the result, or the error of a write. A refused request raises.

        The caller is within `Shard.when_serving`.
        """
        if request.member_epoch in (LEAVE_EPOCH, LEFT_FOR_NOW_EPOCH):
            self._leave(group_id, request, answer)
            return
        is_join = request.member_epoch == JOIN_EPOCH
        if is_join:
            self._fences.check_may_join(group_id)
        else:
            self._fences.check_may_stay(group_id)
        group, first_records = self._find_group(group_id, is_join=is_join)
        if is_join:
            self._check_size(group, request)
        if not first_records and self._is_quiet(group, request):
            group.deadlines.extend_session(request.member_id, self.session_timeout_ms(group_id))
            group.deadlines.wake()
            current = group.current(request.member_id)
            answer(self._result(group, request, current, group.configured, statuses=()))
            return
        owned = request.owned or TargetTasks()
        names = sum(len(numbers) for tasks in owned for numbers in tasks.values())
        if request.topology is not None:
            names += len(request.topology.list_required_topics())
        self._planning.plan(
            group,
            names,
            partial(self._plan_step, group, request),
            partial(self._write_step, group, first_records, request, answer),
            answer,
        )

    def _find_group(self, group_id: str, *, is_join: bool) -> tuple[StreamsGroup, list[EncodedRecord]]:
        """The group, and the records that must be written before it is one. A join makes it.

        Raises GroupIdNotFound.
        """
        known = self._groups.streams(group_id)
        if known is not None:
            return known, []
        if not is_join and group_id not in self._groups:
            raise GroupIdNotFound(f"Streams group {group_id} not found.")
        classic = self._groups.classic(group_id)
        if is_join and group_id not in self._groups:
            return StreamsGroup(group_id, self), []
        if is_join and classic is not None and classic.rebalance.state is GroupState.EMPTY:
            return StreamsGroup(group_id, self), classic.tombstones()
        raise self._groups.missing(group_id, "streams")

    def _check_size(self, group: StreamsGroup, request: StreamsGroupHeartbeat) -> None:
        size_max = self._context.settings.group_streams_max_size
        if request.instance_id is not None and group.id_of_instance(request.instance_id) is not None:
            return
        if len(group.members) >= size_max and request.member_id not in group.members:
            raise GroupMaxSizeReached(
                f"The streams group has reached its maximum capacity of {size_max} members."
            )

    def _is_quiet(self, group: StreamsGroup, request: StreamsGroupHeartbeat) -> bool:
        """Whether the heartbeat says nothing new, and the member runs what it should."""
        if (
            request.topology is not None
            or request.owned is not None
            or request.rebalance_timeout_ms != -1
            or request.rack_id is not None
            or request.process_id is not None
            or request.user_endpoint is not None
            or request.client_tags is not None
            or request.offsets is not None
            or request.end_offsets is not None
            or request.shutdown_application
            or group.configured is None
            or group.topics_seen is not self._context.images.current.topics
            or group.target_epoch < group.epoch
        ):
            return False
        member = group.members.get(request.member_id)
        if member is None or member.instance_id != request.instance_id:
            return False
        current = group.current(request.member_id)
        return (
            is_reconciled(current, group.target_epoch)
            and current.member_epoch == request.member_epoch
            and (member.client_id, member.client_host) == (request.client_id, request.client_host)
            and group.value.last_assignment_configs == assignment_configs(self._context, group.group_id)
        )

    def _plan_step(self, group: StreamsGroup, request: StreamsGroupHeartbeat) -> _Step:
        """The member's step, and what it changes of the group. Raises as `_admit`, StreamsInvalidTopology."""
        update = StreamsUpdate(group, self._context)
        copied = update.group
        is_first = copied.is_empty
        _admit(update, request)
        member_id = request.member_id
        before = copied.current(member_id)
        known = copied.members.get(member_id)
        member = _member_value(known, request)
        is_changed = update.update_member(member_id, member)
        update.update_topology(request.topology)
        statuses: list[Status] = []
        if member.topology_epoch < copied.topology_epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{copied.topology_epoch}."
            )
            statuses.append(Status(StatusCode.STALE_TOPOLOGY, detail))
        configured = update.configure()
        _check_owned(configured, request.owned)
        has_new_epoch = update.refresh(is_changed=is_changed)
        is_delayed = group.deadlines.is_assignment_delayed or (is_first and self._initial_delay_ms(group) > 0)
        if is_delayed:
            statuses.append(_DELAYED_BY_START)
        elif update.is_assignment_due():
            update.update_target()
        elif copied.target_epoch < copied.epoch:
            statuses.append(_DELAYED_BY_INTERVAL)
        current = update.reconcile(member_id, request.owned, is_delayed=is_delayed)
        before_endpoint = None if known is None else known.user_endpoint
        return _Step(
            update,
            before,
            current,
            configured,
            tuple(statuses),
            has_new_epoch,
            has_other_endpoint=member.user_endpoint != before_endpoint,
        )

    def _initial_delay_ms(self, group: StreamsGroup) -> int:
        return self._context.streams_value("initial.rebalance.delay.ms", group.group_id)

    def _write_step(
        self,
        group: StreamsGroup,
        first_records: Sequence[EncodedRecord],
        request: StreamsGroupHeartbeat,
        answer: DeferredAnswer[StreamsOutcome],
        step: _Step,
    ) -> None:
        group_id = group.group_id
        is_first = group.is_empty
        update, before, current = step.update, step.before, step.current
        has_other_tasks = current.assigned != before.assigned

        def on_written(error: OdradekError | None) -> None:
            if error is not None:
                answer(error)
                return
            written = self._groups.streams(group_id)
            assert written is not None
            if step.has_new_epoch:
                self._context.streams_rebalances += 1
            written.configured, written.topics_seen = step.configured, update.topics
            _note_offsets(written, request)
            if is_first and not written.is_empty and self._initial_delay_ms(written) > 0:
                written.deadlines.delay_assignment(self._initial_delay_ms(written))
            if step.has_other_endpoint or (
                has_other_tasks and written.members[request.member_id].user_endpoint is not None
            ):
                written.endpoint_epoch += 1
            self._after_step(written, request.member_id, current, has_moved=current != before)
            is_full = request.member_epoch == JOIN_EPOCH or has_other_tasks
            answer(
                self._result(
                    written,
                    request,
                    current,
                    step.configured,
                    statuses=step.statuses,
                    assigned=current.assigned if is_full else None,
                )
            )

        if first_records:
            self._shard.write(group_id, [*first_records, *update.records], on_written)
        elif update.records:
            self._planning.write(group, update, on_written)
        else:
            on_written(None)

    def _result(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeat,
        current: StreamsCurrentValue,
        configured: ConfiguredTopology | None,
        *,
        statuses: Sequence[Status],
        assigned: HeldTasks | None = None,
    ) -> StreamsHeartbeatResult:
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        said = list(statuses)
        if configured is not None and configured.problem is not None:
            said.append(configured.problem)
        if group.shutdown_member_id is not None:
            said.append(_say_shutdown(group.shutdown_member_id))
        endpoints = None
        if group.endpoint_epoch != request.endpoint_epoch:
            endpoints = list_endpoints(group, self._context.images.current.topics)
        return StreamsHeartbeatResult(
            request.member_id,
            current.member_epoch,
            tuple(said),
            assigned,
            group.endpoint_epoch,
            endpoints,
            () if configured is None else configured.missing,
        )

    def _after_step(
        self, group: StreamsGroup, member_id: str, current: StreamsCurrentValue, *, has_moved: bool
    ) -> None:
        """Extend the member's session. If it has just been asked to revoke, the time for that begins."""
        group.deadlines.extend_session(member_id, self.session_timeout_ms(group.group_id))
        if current.state is not TaskState.UNREVOKED_TASKS:
            group.deadlines.end_step(member_id)
        elif has_moved:
            group.deadlines.end_step(member_id)
            timeout_ms = group.members[member_id].rebalance_timeout_ms
            group.deadlines.set_step(member_id, timeout_ms, current.member_epoch)
        group.deadlines.wake()

    # --- leave and expiry -----------------------------------------------------------------------------------

    def _leave(
        self, group_id: str, request: StreamsGroupHeartbeat, answer: DeferredAnswer[StreamsOutcome]
    ) -> None:
        group = self._groups.streams(group_id)
        if group is None:
            raise self._groups.missing(group_id, "streams")
        member_id = request.member_id
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = member_id
        if request.instance_id is not None:
            _check_instance(group, member_id, request.instance_id)
        else:
            group.member(member_id)
        result = StreamsHeartbeatResult(member_id, request.member_epoch)

        def on_written(error: OdradekError | None) -> None:
            answer(error or result)

        if request.member_epoch == LEFT_FOR_NOW_EPOCH:
            # It keeps its tasks until it is back or its session ends.
            current = group.current(member_id)
            away = current._replace(
                member_epoch=LEFT_FOR_NOW_EPOCH,
                assigned=current.assigned.with_zero_epochs(),
                pending_revocation=NOTHING_HELD,
            )
            update = StreamsUpdate(group, self._context)
            update.put(StreamsRecordKind.CURRENT, member_id, away)
            self._shard.write(group_id, update.records, on_written)
        else:
            self.fence(group, [member_id], on_written)

    def fence(self, group: StreamsGroup, member_ids: Sequence[str], on_written: OnWritten) -> None:
        """Remove members; `on_written` is called once that is written, or with the error."""

        def plan() -> StreamsUpdate:
            update = StreamsUpdate(group, self._context)
            for member_id in member_ids:
                update.remove_member(member_id)
            update.bump_epoch()
            return update

        def finish(update: StreamsUpdate) -> None:
            self._planning.write(group, update, on_written)

        self._planning.plan(group, 0, plan, finish, on_written)

    def expire_members(self, group: StreamsGroup) -> None:
        """Fence the members whose session, or time for a step, is over; else compute an assignment that waits."""
        group_id = group.group_id

        def is_current() -> bool:
            return self._groups.get(group_id) is group

        def act() -> None:
            if not is_current():
                return
            due = group.deadlines.take_due(lambda member_id: group.current(member_id).member_epoch)
            fenced = sorted(member_id for member_id in due if member_id in group.members)
            if fenced:
                logger.info("group %r: members %s are fenced, their time is up", group_id, ", ".join(fenced))
                self.fence(group, fenced, partial(on_fenced, fenced))
            elif group.deadlines.take_assignment():
                group.deadlines.rearm()
                self._assign(group)

        def on_fenced(fenced: Sequence[str], error: OdradekError | None) -> None:
            if error is not None and is_current():
                for member_id in fenced:
                    group.deadlines.extend_session(member_id, self.session_timeout_ms(group_id))
            group.deadlines.rearm()

        self._shard.when_free(group_id, act)

    def _assign(self, group: StreamsGroup) -> None:
        """Compute the first assignment after its delay. Where that fails, the next heartbeat does it."""
        if group.is_empty or group.target_epoch >= group.epoch:
            return

        def plan() -> StreamsUpdate:
            update = StreamsUpdate(group, self._context)
            update.update_target()
            return update

        def finish(update: StreamsUpdate) -> None:
            self._planning.write(group, update, report)

        def report(error: OdradekError | None) -> None:
            if error is not None:
                logger.warning(
                    "group %r: the assignment was not written, the next heartbeat tries again: %s",
                    *(group.group_id, error),
                )

        self._planning.plan(group, 0, plan, finish, report)


def _admit(update: StreamsUpdate, request: StreamsGroupHeartbeat) -> None:
    """Admit the member; a static member that returns takes over its old member id's records.

    Raises UnknownMemberId, FencedMemberEpoch, FencedInstanceId, UnreleasedInstanceId.
    """
    group, member_id = update.group, request.member_id
    if request.member_epoch != JOIN_EPOCH:
        if request.instance_id is not None:
            _check_instance(group, member_id, request.instance_id)
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


def _check_instance(group: StreamsGroup, member_id: str, instance_id: str) -> None:
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


def _check_owned(configured: ConfiguredTopology, owned: TargetTasks | None) -> None:
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


def _member_value(known: StreamsMemberValue | None, request: StreamsGroupHeartbeat) -> StreamsMemberValue:
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


def _note_offsets(group: StreamsGroup, request: StreamsGroupHeartbeat) -> None:
    """Keep the changelog offsets that the member reports, as far as the group has such tasks."""
    member_id, subtopologies = request.member_id, None
    if group.configured is not None:
        subtopologies = group.configured.subtopologies
    if subtopologies is None:
        return

    def known_tasks(offsets: Mapping[TaskId, int]) -> dict[TaskId, int]:
        return {
            (subtopology_id, number): offset
            for (subtopology_id, number), offset in offsets.items()
            if subtopology_id in subtopologies and 0 <= number < subtopologies[subtopology_id].tasks
        }

    # Other mappings, since a thread may read those before.
    if request.offsets is not None:
        group.offsets = {**group.offsets, member_id: known_tasks(request.offsets)}
    if request.end_offsets is not None:
        group.end_offsets = {**group.end_offsets, member_id: known_tasks(request.end_offsets)}


def _say_shutdown(member_id: str) -> Status:
    return Status(
        StatusCode.SHUTDOWN_APPLICATION,
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application.",
    )
