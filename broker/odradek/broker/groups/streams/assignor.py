"""The sticky assignor: tasks stay where they are as far as the load stays even (Kafka's `StickyTaskAssignor`).

Active tasks go first. Each stays at the member that had it, else it goes to one with a copy of its state. Both only
while the member is below its share. The rest goes to the process with the least load, and there to the member with the
fewest tasks. Standby tasks follow in the same way; a process holds no two copies of a task. The load of a process is
its number of tasks for each member. Kafka has no assignor that spreads copies by tags of racks.

What is equal is taken in the order of ids, where Kafka's order is that of a hash table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from odradek.broker.groups.streams.tasks import TargetTasks, TaskId, Tasks, collect_tasks, list_tasks
from odradek.broker.groups.streams.topology import ConfiguredSubtopology
from odradek.foundation.named_tuple import NamedTuple

STICKY: Final = "sticky"

NO_OFFSETS: Final[Mapping[TaskId, int]] = {}


class MemberTasks(NamedTuple):
    """One member before the assignment: its process, what it runs, and the changelog offsets that it has."""

    process_id: str
    active: Tasks
    standby: Tasks
    offsets: Mapping[TaskId, int] = NO_OFFSETS


def assign_tasks(
    members: Mapping[str, MemberTasks],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    *,
    standby_replicas: int,
) -> dict[str, TargetTasks]:
    """The tasks of each member by its id. Each task is active at exactly one member, unless there are no members.

    Fewer standby tasks than wanted are given where there are too few processes.
    """
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, standby_replicas)
    assignment.assign_active(
        [(subtopology, number) for subtopology, one in subtopologies.items() for number in range(one.tasks)]
    )
    if standby_replicas > 0:
        assignment.assign_standby(
            [
                (subtopology, number)
                for subtopology, one in subtopologies.items()
                if one.is_stateful
                for number in range(one.tasks)
            ]
        )
    return {
        member_id: TargetTasks(
            collect_tasks(assignment.active[member_id]), collect_tasks(assignment.standby[member_id])
        )
        for member_id in members
    }


class _Process:
    """The members of one process, and what they have been given so far."""

    def __init__(self, process_id: str, member_ids: Sequence[str]) -> None:
        self.process_id = process_id
        self.counts = dict.fromkeys(member_ids, 0)
        self.tasks: set[TaskId] = set()
        self._given = 0
        self._by_load: list[tuple[int, str]] | None = None

    @property
    def load(self) -> float:
        """Tasks for each member."""
        return self._given / len(self.counts)

    def add(self, member_id: str, task: TaskId) -> int:
        """Give the member a task; the number of its tasks after that."""
        self._by_load = None
        return self._count(member_id, task)

    def _count(self, member_id: str, task: TaskId) -> int:
        self.tasks.add(task)
        self._given += 1
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_to_least_loaded(self, task: TaskId) -> tuple[str, int]:
        """The member that gets the task, and the number of its tasks after that."""
        if self._by_load is None:
            self._by_load = [(given, member_id) for member_id, given in self.counts.items()]
            heapify(self._by_load)
        _, member_id = self._by_load[0]
        given = self._count(member_id, task)
        heapreplace(self._by_load, (given, member_id))
        return member_id, given


class _Share:
    """The tasks that each member may have, so that those left fit evenly on the members below it."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self._update()

    def _update(self) -> None:
        self.size = -(-self._tasks // self._members) if self._members else 0

    def note(self, given: int) -> None:
        """A member has `given` tasks now. One with a whole share leaves the count."""
        if given == self.size:
            self._members -= 1
            self._tasks -= given
            self._update()


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, MemberTasks],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_replicas: int,
    ) -> None:
        self._standby_replicas = standby_replicas
        active = sum(one.tasks for one in subtopologies.values())
        copies = sum(one.tasks for one in subtopologies.values() if one.is_stateful) * standby_replicas
        self._active_share = _Share(active, len(members))
        self._share = _Share(active + copies, len(members))
        by_process: dict[str, list[str]] = {}
        for member_id in sorted(members):
            by_process.setdefault(members[member_id].process_id, []).append(member_id)
        processes = {process_id: _Process(process_id, ids) for process_id, ids in by_process.items()}
        self._processes = [processes[process_id] for process_id in sorted(processes)]
        self._process_of = {member_id: processes[one.process_id] for member_id, one in members.items()}
        self.active: dict[str, list[TaskId]] = {member_id: [] for member_id in members}
        self.standby: dict[str, list[TaskId]] = {member_id: [] for member_id in members}
        self._had_active = {
            task: member_id for member_id in sorted(members) for task in list_tasks(members[member_id].active)
        }
        self._candidates = _rank_candidates(members)

    # --- active tasks ---------------------------------------------------------------------------------------

    def assign_active(self, tasks: Sequence[TaskId]) -> None:
        left = self._keep_active(sorted(tasks, key=lambda task: (task[1], task[0])))
        heap = self._heap()
        for task in sorted(left):
            process = self._processes[heap[0][1]]
            member_id, given = process.add_to_least_loaded(task)
            self._note_active(member_id, task, given)
            heapreplace(heap, (process.load, heap[0][1]))

    def _keep_active(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        """Leave tasks where they are, then give them to members with a copy; returns the others."""
        moved = [task for task in tasks if not self._give_active(self._had_active.get(task), task)]
        return [task for task in moved if not self._give_active(self._find_candidate(task), task)]

    def _give_active(self, member_id: str | None, task: TaskId) -> bool:
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if process.counts[member_id] >= self._active_share.size:
            return False
        self._note_active(member_id, task, process.add(member_id, task))
        return True

    def _note_active(self, member_id: str, task: TaskId, given: int) -> None:
        self.active[member_id].append(task)
        self._active_share.note(given)
        self._share.note(given)

    def _find_candidate(self, task: TaskId, *, is_copy: bool = False) -> str | None:
        """The least loaded member with a copy of the task's state; for another copy, of a process without the task."""
        found: str | None = None
        found_load = (0.0, 0)
        for member_id in self._candidates.get(task, ()):
            process = self._process_of[member_id]
            if is_copy and task in process.tasks:
                continue
            load = (process.load, process.counts[member_id])
            if found is None or (load[0] < found_load[0] and load[1] < found_load[1]):
                found, found_load = member_id, load
        return found

    # --- standby tasks --------------------------------------------------------------------------------------

    def assign_standby(self, tasks: Sequence[TaskId]) -> None:
        left: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            kept = 0
            while kept < self._standby_replicas and self._keep_standby(task):
                kept += 1
            left.append((task, self._standby_replicas - kept))
        heap = self._heap()
        for task, replicas in sorted(left, reverse=True):
            for _ in range(replicas):
                if not self._give_standby_to_least_loaded(heap, task):
                    break

    def _keep_standby(self, task: TaskId) -> bool:
        """Give a copy to the member that ran the task, else to one that has a copy."""
        return self._give_standby(self._had_active.get(task), task) or self._give_standby(
            self._find_candidate(task, is_copy=True), task
        )

    def _give_standby(self, member_id: str | None, task: TaskId) -> bool:
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if task in process.tasks or process.counts[member_id] >= self._share.size:
            return False
        self._note_standby(member_id, task, process.add(member_id, task))
        return True

    def _note_standby(self, member_id: str, task: TaskId, given: int) -> None:
        self.standby[member_id].append(task)
        self._share.note(given)

    def _give_standby_to_least_loaded(self, heap: list[tuple[float, int]], task: TaskId) -> bool:
        """Give a copy to the least loaded process without the task; False where each has it."""
        passed = []
        is_given = False
        while heap and not is_given:
            entry = heappop(heap)
            process = self._processes[entry[1]]
            if task not in process.tasks:
                self._note_standby_at(process, task)
                entry = (process.load, entry[1])
                is_given = True
            passed.append(entry)
        for entry in passed:
            heappush(heap, entry)
        return is_given

    def _note_standby_at(self, process: _Process, task: TaskId) -> None:
        member_id, given = process.add_to_least_loaded(task)
        self._note_standby(member_id, task, given)

    def _heap(self) -> list[tuple[float, int]]:
        """The processes by load, as (load, place)."""
        heap = [(process.load, place) for place, process in enumerate(self._processes)]
        heapify(heap)
        return heap


def _rank_candidates(members: Mapping[str, MemberTasks]) -> dict[TaskId, list[str]]:
    """The members with a copy of each task's state: standby tasks first, then those with the most records."""
    candidates: dict[TaskId, list[tuple[int, int, str]]] = {}
    for member_id in sorted(members):
        one = members[member_id]
        standby = set(list_tasks(one.standby))
        for task in standby:
            candidates.setdefault(task, []).append((0, -one.offsets.get(task, 0), member_id))
        for task, offset in one.offsets.items():
            if task not in standby:
                candidates.setdefault(task, []).append((1, -offset, member_id))
    return {task: [member_id for *_, member_id in sorted(ranked)] for task, ranked in candidates.items()}
