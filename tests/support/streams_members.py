"""Members of Streams groups (KIP-1071) as Kafka Streams plays them, one heartbeat at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.broker.groups.streams.heartbeats import (
    StreamsGroupHeartbeat,
    StreamsHeartbeatResult,
    check_streams_heartbeat,
)
from odradek.broker.groups.streams.tasks import TargetTasks, TaskId, list_tasks
from odradek.broker.groups.streams.topology import InternalTopic, StreamsSubtopology, StreamsTopology
from odradek.foundation.errors import OdradekError
from tests.support.coordinator_world import GroupWorld, result_of

NO_TASKS = TargetTasks()


def subtopology(name: str, *sources: str, **more: Any) -> StreamsSubtopology:
    fields: dict[str, Any] = {
        "source_topic_regex": (),
        "state_changelog_topics": (),
        "repartition_sink_topics": (),
        "repartition_source_topics": (),
        "copartition_groups": (),
        **more,
    }
    return StreamsSubtopology(subtopology_id=name, source_topics=sources, **fields)


def counting(*, epoch: int = 0) -> StreamsTopology:
    """A stateless subtopology 0 of `lines`, and a stateful 1 that reads what it writes to `r`, with a changelog `c`."""
    counter = subtopology(
        "1",
        repartition_source_topics=(InternalTopic("r", 0, 0),),
        state_changelog_topics=(InternalTopic("c", 0, 0),),
    )
    return StreamsTopology(epoch, (subtopology("0", "lines", repartition_sink_topics=("r",)), counter))


TOPICS = {"lines": 3, "r": 3, "c": 3}


class StreamsMember:
    """Gives up tasks at once, and reports it with the next heartbeat. While `is_slow` it still runs them."""

    def __init__(self, world: GroupWorld, member_id: str, *, group_id: str = "g", **fields: Any) -> None:
        self.world = world
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.fields: dict[str, Any] = {
            "topology": counting(),
            "rebalance_timeout_ms": 60_000,
            "process_id": f"process-of-{member_id}",
            "client_tags": (),
            **fields,
        }
        self.owned = NO_TASKS
        self._reported: TargetTasks | None = None
        self._assigned = NO_TASKS
        self.is_slow = False
        self.statuses: tuple[int, ...] = ()

    async def raw(self, **fields: Any) -> StreamsHeartbeatResult | OdradekError:
        """One heartbeat with just these fields."""
        values: dict[str, Any] = {
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.fields.get("instance_id"),
            "client_id": "client",
            "client_host": "/127.0.0.1",
            **fields,
        }
        values["owned_kinds"] = 0 if values.get("owned") is None else 3
        request = StreamsGroupHeartbeat(**values)
        try:
            check_streams_heartbeat(self.world.groups.context, self.group_id, request)
        except OdradekError as error:
            return error
        return await result_of(self.world.groups.streams_heartbeat(self.group_id, request))

    async def heartbeat(self) -> StreamsHeartbeatResult | OdradekError:
        """The next heartbeat: all there is to say when joining, else only what is run when that changed."""
        if not self.is_slow:
            self.owned = self._assigned
        if self.epoch == 0:
            self.owned = self._assigned = NO_TASKS
            said: dict[str, Any] = {**self.fields, "owned": NO_TASKS}
        elif self._reported != self.owned:
            said = {"owned": self.owned}
        else:
            said = {}
        reported = self.owned
        answer = await self.raw(**said)
        if isinstance(answer, StreamsHeartbeatResult):
            self._reported = reported
            self.epoch = answer.member_epoch
            self.statuses = tuple(int(status.status_code) for status in answer.statuses)
            if answer.assigned is not None:
                self._take(answer.assigned.without_epochs())
        elif type(answer).__name__ in ("FencedMemberEpoch", "UnknownMemberId"):
            self.epoch = 0
            self.owned = self._assigned = NO_TASKS
        return answer

    def _take(self, assigned: TargetTasks) -> None:
        self._assigned = assigned
        if not self.is_slow:
            self.owned = assigned
            return
        kept = [set(list_tasks(tasks)) for tasks in self.owned]
        added = [set(list_tasks(tasks)) for tasks in assigned]
        self.owned = TargetTasks(*(_collect(old | new) for old, new in zip(kept, added, strict=True)))

    async def must_beat(self) -> StreamsHeartbeatResult:
        answer = await self.heartbeat()
        assert isinstance(answer, StreamsHeartbeatResult), answer
        return answer

    async def leave(self, *, epoch: int = -1, **more: Any) -> StreamsHeartbeatResult | OdradekError:
        answer = await self.raw(member_epoch=epoch, **more)
        if isinstance(answer, StreamsHeartbeatResult):
            self.epoch = 0
            self.owned = self._assigned = NO_TASKS
        return answer

    @property
    def active(self) -> set[TaskId]:
        return set(list_tasks(self.owned.active))

    @property
    def standby(self) -> set[TaskId]:
        return set(list_tasks(self.owned.standby))


def _collect(tasks: set[TaskId]) -> dict[str, frozenset[int]]:
    return {
        name: frozenset(number for one, number in tasks if one == name) for name in {one for one, _ in tasks}
    }


def check_one_owner(members: Sequence[StreamsMember]) -> dict[TaskId, StreamsMember]:
    """The member that runs each active task. No task has two, and no process two copies of one."""
    owners: dict[TaskId, StreamsMember] = {}
    copies: dict[tuple[str, TaskId], str] = {}
    for member in members:
        for task in member.active:
            assert task not in owners, f"{task} runs at {owners[task].member_id} and at {member.member_id}"
            owners[task] = member
        for task in member.active | member.standby:
            place = (member.fields["process_id"], task)
            holder = copies.setdefault(place, member.member_id)
            assert holder == member.member_id, f"{task} is twice in the process of {member.member_id}"
    return owners


async def settle(members: Sequence[StreamsMember], *, rounds: int = 30) -> None:
    """Heartbeats in turn until no member has another epoch or other tasks."""
    for _ in range(rounds):
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            await member.must_beat()
        if before == [(member.epoch, member.owned) for member in members]:
            return
    raise AssertionError(f"no rest: {[(member.member_id, member.epoch, member.owned) for member in members]}")
