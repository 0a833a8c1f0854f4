"""Heartbeats of Streams groups (KIP-1071): members join, stay, leave and expire.

A heartbeat carries everything: the member's id, what it runs, and the topology when it joins. Its answer says what the
member should run, and what hinders the group. Most heartbeats change nothing and are answered at once. The others
become records, and are answered once these are written.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.broker.coordination.shard import DeferredAnswer
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.classic.group import GroupState
from odradek.broker.groups.consumer.planning import Planning
from odradek.broker.groups.conversion import GroupParts
from odradek.broker.groups.schema import StreamsRecordKind
from odradek.broker.groups.streams.admission import (
    admit,
    check_instance,
    check_owned,
    keep_known_tasks,
    member_value,
)
from odradek.broker.groups.streams.endpoints import list_endpoints
from odradek.broker.groups.streams.group import LEFT_FOR_NOW_EPOCH, StreamsGroup
from odradek.broker.groups.streams.heartbeats import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    StreamsGroupHeartbeat,
    StreamsHeartbeatResult,
    StreamsOutcome,
)
from odradek.broker.groups.streams.host import StreamsHost
from odradek.broker.groups.streams.reconciliation import is_reconciled
from odradek.broker.groups.streams.schema import (
    StreamsCurrentValue,
    TaskState,
    decode_streams_key,
    decode_streams_value,
)
from odradek.broker.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    TargetTasks,
)
from odradek.broker.groups.streams.topology import (
    ConfiguredTopology,
    StatusCode,
    StreamsStatus,
)
from odradek.broker.groups.streams.update import StreamsStep, StreamsUpdate, read_assignment_configs
from odradek.foundation.errors import (
    GroupIdNotFound,
    GroupMaxSizeReached,
    OdradekError,
)

logger = logging.getLogger(__name__)

_DELAYED_BY_START: Final = StreamsStatus(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
)
_DELAYED_BY_INTERVAL: Final = StreamsStatus(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
)


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
        names += len(request.offsets or ()) + len(request.end_offsets or ())
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
            and group.value.last_assignment_configs == read_assignment_configs(self._context, group.group_id)
        )

    def _plan_step(self, group: StreamsGroup, request: StreamsGroupHeartbeat) -> StreamsStep:
        """The member's step, and what it changes of the group. Raises as `admit`, StreamsInvalidTopology."""
        update = StreamsUpdate(group, self._context)
        copied = update.group
        is_first = copied.is_empty
        admit(update, request)
        member_id = request.member_id
        before = copied.current(member_id)
        known = copied.members.get(member_id)
        member = member_value(known, request)
        is_changed = update.update_member(member_id, member)
        update.update_topology(request.topology)
        statuses: list[StreamsStatus] = []
        if member.topology_epoch < copied.topology_epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{copied.topology_epoch}."
            )
            statuses.append(StreamsStatus(StatusCode.STALE_TOPOLOGY, detail))
        configured = update.configure()
        check_owned(configured, request.owned)
        has_new_epoch = update.refresh(is_changed=is_changed)
        is_delayed = group.deadlines.is_assignment_delayed or (is_first and self._initial_delay_ms(group) > 0)
        if is_delayed:
            statuses.append(_DELAYED_BY_START)
        elif update.is_assignment_due():
            update.update_target()
        elif copied.target_epoch < copied.epoch:
            statuses.append(_DELAYED_BY_INTERVAL)
        current = update.reconcile(member_id, request.owned, is_delayed=is_delayed)
        has_other_tasks = current.assigned != before.assigned
        before_endpoint = None if known is None else known.user_endpoint
        return StreamsStep(
            update,
            before,
            current,
            configured,
            tuple(statuses),
            has_new_epoch,
            has_other_endpoint=member.user_endpoint != before_endpoint,
            has_other_tasks=has_other_tasks,
            names_tasks=request.member_epoch == JOIN_EPOCH
            or has_other_tasks
            or _runs_others(request.owned, current),
            offsets=keep_known_tasks(configured, request.offsets),
            end_offsets=keep_known_tasks(configured, request.end_offsets),
        )

    def _initial_delay_ms(self, group: StreamsGroup) -> int:
        return self._context.streams_value("initial.rebalance.delay.ms", group.group_id)

    def _write_step(
        self,
        group: StreamsGroup,
        first_records: Sequence[EncodedRecord],
        request: StreamsGroupHeartbeat,
        answer: DeferredAnswer[StreamsOutcome],
        step: StreamsStep,
    ) -> None:
        group_id = group.group_id
        is_first = group.is_empty
        update, before, current = step.update, step.before, step.current

        def on_written(error: OdradekError | None) -> None:
            if error is not None:
                answer(error)
                return
            written = self._groups.streams(group_id)
            assert written is not None
            if step.has_new_epoch:
                self._context.streams_rebalances += 1
            written.configured, written.topics_seen = step.configured, update.topics
            # Other mappings, since a thread may read those before.
            if step.offsets is not None:
                written.offsets = {**written.offsets, request.member_id: step.offsets}
            if step.end_offsets is not None:
                written.end_offsets = {**written.end_offsets, request.member_id: step.end_offsets}
            if is_first and not written.is_empty and self._initial_delay_ms(written) > 0:
                written.deadlines.delay_assignment(self._initial_delay_ms(written))
            if step.has_other_endpoint or (
                step.has_other_tasks and written.members[request.member_id].user_endpoint is not None
            ):
                written.endpoint_epoch += 1
            self._after_step(written, request.member_id, current, has_moved=current != before)
            answer(
                self._result(
                    written,
                    request,
                    current,
                    step.configured,
                    statuses=step.statuses,
                    assigned=current.assigned if step.names_tasks else None,
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
        statuses: Sequence[StreamsStatus],
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
        if request.instance_id is not None:
            check_instance(group, member_id, request.instance_id)
        else:
            group.member(member_id)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = member_id
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


def _say_shutdown(member_id: str) -> StreamsStatus:
    return StreamsStatus(
        StatusCode.SHUTDOWN_APPLICATION,
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application.",
    )


def _runs_others(owned: TargetTasks | None, current: StreamsCurrentValue) -> bool:
    """Whether a member says that it runs other tasks than its own. It may have missed an answer.

    Kafka does not send the tasks again, and so they have no owner until the next epoch.
    """
    return owned is not None and owned != current.assigned.without_epochs()
