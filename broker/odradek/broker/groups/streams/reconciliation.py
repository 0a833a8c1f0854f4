"""The steps of a Streams group's member from the tasks that it runs to those that it should run.

First the member gives up what is no longer in its target, and stays in its epoch until it confirms that. Then it enters
the target's epoch and gets each task that is free. While other members hold some, it waits. So no active task ever has
two owners. No process runs two copies of a task, since it keeps one state directory for each.

A member that runs a copy of a task changes its role without a pause. A standby task that should become active stays
until the active one is granted. An active task that should become a standby is one at once, while its old role ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from odradek.broker.groups.streams.schema import StreamsCurrentValue, TaskState
from odradek.broker.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    TargetTasks,
    TaskId,
    collect_tasks,
    has_common,
    list_tasks,
)
from odradek.foundation.errors import FencedMemberEpoch


class TaskHolders(Protocol):
    """The processes that hold tasks now, those included that must be given up and are not."""

    def active_process(self, task: TaskId) -> str | None:
        """The process of the member that holds the active task; None where no member does."""
        ...

    def has_standby(self, task: TaskId, process_id: str) -> bool:
        """Whether a member of the process holds it as a standby task."""
        ...

    def has_warmup(self, task: TaskId, process_id: str) -> bool:
        """Whether a member of the process holds it as a warm-up task."""
        ...


def is_reconciled(current: StreamsCurrentValue, target_epoch: int) -> bool:
    return current.state is TaskState.STABLE and current.member_epoch == target_epoch


def take_step(
    current: StreamsCurrentValue,
    *,
    process_id: str,
    target_epoch: int,
    target: TargetTasks,
    holders: TaskHolders,
    owned: TargetTasks | None,
) -> StreamsCurrentValue:
    """The member's next step; the same value when there is none.

    `owned` is what the member says it runs, None when it does not say. Raises FencedMemberEpoch for a state that only a
    newer broker knows, until the member runs nothing.
    """
    epoch = current.member_epoch
    match current.state:
        case TaskState.STABLE:
            if epoch == target_epoch:
                return current
        case TaskState.UNREVOKED_TASKS:
            if _runs_any(owned, current.pending_revocation):
                return current
            epoch += 1
        case TaskState.UNKNOWN:
            if owned is None or not owned.is_empty:
                raise FencedMemberEpoch(
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
            epoch = target_epoch
    step = _Step(current.assigned, target, process_id=process_id, holders=holders)
    pending = step.list_given_up()
    must_revoke = not pending.is_empty and _runs_any(owned, pending)
    step.keep_until_promoted(must_revoke=must_revoke)
    if must_revoke:
        return _at(current, epoch, TaskState.UNREVOKED_TASKS, step.list_kept(), pending)
    state = TaskState.UNRELEASED_TASKS if step.is_waiting else TaskState.STABLE
    return _at(current, target_epoch, state, step.list_all(target_epoch), NOTHING_HELD)


class _Step:
    """The tasks of one member, sorted into those that it keeps, gives up and gets."""

    def __init__(
        self, held: HeldTasks, target: TargetTasks, *, process_id: str, holders: TaskHolders
    ) -> None:
        self._epochs = held.active
        self._had = tuple(set(list_tasks(tasks)) for tasks in held)
        self._wanted = tuple(set(list_tasks(tasks)) for tasks in target)
        self._kept = [had & wanted for had, wanted in zip(self._had, self._wanted, strict=True)]
        self._lost = [had - wanted for had, wanted in zip(self._had, self._wanted, strict=True)]
        missing = [wanted - had for had, wanted in zip(self._had, self._wanted, strict=True)]
        self._process_id = process_id
        self._holders = holders
        tests = (self._is_active_elsewhere, self._is_standby_taken, self._is_warmup_taken)
        self._gained = [
            {task for task in tasks if not is_taken(task)}
            for tasks, is_taken in zip(missing, tests, strict=True)
        ]
        self.is_waiting = any(
            len(gained) < len(tasks) for gained, tasks in zip(self._gained, missing, strict=True)
        )
        self._change_roles()

    # --- whether a task is free -----------------------------------------------------------------------------

    def _is_active_elsewhere(self, task: TaskId) -> bool:
        return (
            self._holders.active_process(task) is not None
            or self._has_other_standby(task)
            or self._has_other_warmup(task)
        )

    def _is_standby_taken(self, task: TaskId) -> bool:
        is_active_here = self._holders.active_process(task) == self._process_id
        return (
            (is_active_here and task not in self._had[0])
            or self._holders.has_standby(task, self._process_id)
            or self._has_other_warmup(task)
        )

    def _is_warmup_taken(self, task: TaskId) -> bool:
        return (
            self._holders.active_process(task) == self._process_id
            or self._has_other_standby(task)
            or self._holders.has_warmup(task, self._process_id)
        )

    def _has_other_standby(self, task: TaskId) -> bool:
        return task not in self._had[1] and self._holders.has_standby(task, self._process_id)

    def _has_other_warmup(self, task: TaskId) -> bool:
        return task not in self._had[2] and self._holders.has_warmup(task, self._process_id)

    # --- roles that change in place -------------------------------------------------------------------------

    def _change_roles(self) -> None:
        active, standby, warmup = self._had
        demoted = self._gained[1] & active
        to_warmup = self._gained[2] & standby
        to_standby = self._gained[1] & warmup
        for role, tasks in ((1, demoted | to_standby), (2, to_warmup)):
            self._gained[role] -= tasks
            self._kept[role] |= tasks
        self._lost[1] -= to_warmup
        self._lost[2] -= to_standby
        # A copy that should become active is not given up.
        self._lost[1] -= self._wanted[0]
        self._lost[2] -= self._wanted[0]

    def keep_until_promoted(self, *, must_revoke: bool) -> None:
        """A copy whose active task is not granted in this step stays a copy."""
        granted: set[TaskId] = set() if must_revoke else self._gained[0]
        for role in (1, 2):
            self._kept[role] |= (self._had[role] & self._wanted[0]) - granted

    # --- results --------------------------------------------------------------------------------------------

    def list_given_up(self) -> HeldTasks:
        return self._collect_roles(self._lost)

    def list_kept(self) -> HeldTasks:
        return self._collect_roles(self._kept)

    def list_all(self, target_epoch: int) -> HeldTasks:
        """What is kept, and what the member gets in this epoch."""
        kept = self._collect_roles(
            [kept | gained for kept, gained in zip(self._kept, self._gained, strict=True)]
        )
        active = {
            subtopology: {
                number: target_epoch if (subtopology, number) in self._gained[0] else epoch
                for number, epoch in epochs.items()
            }
            for subtopology, epochs in kept.active.items()
        }
        return kept._replace(active=active)

    def _collect_roles(self, roles: Iterable[set[TaskId]]) -> HeldTasks:
        active, standby, warmup = roles
        epochs = {
            subtopology: {number: self._epochs.get(subtopology, {}).get(number, 0) for number in numbers}
            for subtopology, numbers in collect_tasks(active).items()
        }
        return HeldTasks(epochs, collect_tasks(standby), collect_tasks(warmup))


def _runs_any(owned: TargetTasks | None, tasks: HeldTasks) -> bool:
    """Whether the member (still) runs one of `tasks`; one that does not say is taken to."""
    if owned is None:
        return True
    return any(has_common(held, own) for held, own in zip(tasks, owned, strict=True))


def _at(
    current: StreamsCurrentValue, epoch: int, state: TaskState, assigned: HeldTasks, pending: HeldTasks
) -> StreamsCurrentValue:
    return StreamsCurrentValue(epoch, current.member_epoch, state, assigned, pending)
