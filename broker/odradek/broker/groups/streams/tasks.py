"""Tasks of a Kafka Streams application: what members should run, and what they run.

A task is a subtopology and a number. It reads the partitions of that number. It is active at one member. Standby tasks
keep copies of its state at others. Warm-up tasks are copies that will become active.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from odradek.foundation.named_tuple import NamedTuple

# The numbers of tasks by subtopology.
Tasks = Mapping[str, frozenset[int]]
# The epoch at which each active task was assigned, by subtopology and number.
TaskEpochs = Mapping[str, Mapping[int, int]]
# The numbers of tasks of one role, with or without epochs.
TasksOfRole = Mapping[str, Collection[int]]
# One task: its subtopology and number.
TaskId = tuple[str, int]

NO_TASKS: Final[Tasks] = {}
NO_EPOCHS: Final[TaskEpochs] = {}


class TargetTasks(NamedTuple):
    """The tasks that a member should run, or says that it runs."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class HeldTasks(NamedTuple):
    """The tasks that a member runs. An active one knows the member's epoch that it was assigned in."""

    active: TaskEpochs = NO_EPOCHS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def without_epochs(self) -> TargetTasks:
        return TargetTasks(number_tasks(self.active), self.standby, self.warmup)

    def with_zero_epochs(self) -> HeldTasks:
        """The same, with epochs of a member that has left for now: no commit is too old for them."""
        zero = {subtopology: dict.fromkeys(epochs, 0) for subtopology, epochs in self.active.items()}
        return self._replace(active=zero)


NOTHING_HELD: Final = HeldTasks()
NO_TARGET: Final = TargetTasks()


class TaskRows(NamedTuple):
    """The tasks of one subtopology, as on the wire and in records."""

    subtopology_id: str
    partitions: Sequence[int]
    assignment_epochs: Sequence[int] | None = None


class OwnedTasks(Protocol):
    """The tasks of one subtopology in a heartbeat."""

    @property
    def subtopology_id(self) -> str: ...

    @property
    def partitions(self) -> Sequence[int]: ...


def number_tasks(epochs: TaskEpochs) -> Tasks:
    return {subtopology: frozenset(numbers) for subtopology, numbers in epochs.items()}


def list_tasks(tasks: TasksOfRole) -> Iterator[TaskId]:
    for subtopology, numbers in tasks.items():
        for number in numbers:
            yield subtopology, number


def collect_tasks(tasks: Iterable[TaskId]) -> Tasks:
    """The tasks by subtopology."""
    by_subtopology: dict[str, set[int]] = {}
    for subtopology, number in tasks:
        by_subtopology.setdefault(subtopology, set()).add(number)
    return {subtopology: frozenset(numbers) for subtopology, numbers in by_subtopology.items()}


def read_tasks(rows: Iterable[OwnedTasks]) -> Tasks:
    """The tasks of rows as on the wire. Subtopologies without tasks are left out."""
    return collect_tasks((row.subtopology_id, number) for row in rows for number in row.partitions)


def read_epochs(rows: Iterable[TaskRows], *, default: int) -> TaskEpochs:
    """The tasks with their epochs; `default` where a record has none, as those of Kafka 4.1."""
    read: dict[str, Mapping[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [max(default, 0)] * len(row.partitions)
        read[row.subtopology_id] = dict(zip(row.partitions, epochs, strict=True))
    return read


def write_tasks(tasks: Tasks) -> list[TaskRows]:
    """The rows of a record, in Kafka's order."""
    return [TaskRows(subtopology, sorted(numbers)) for subtopology, numbers in sorted(tasks.items())]


def write_epochs(tasks: TaskEpochs) -> list[TaskRows]:
    """The rows of a record with epochs, in Kafka's order."""
    return [
        TaskRows(subtopology, sorted(epochs), [epochs[number] for number in sorted(epochs)])
        for subtopology, epochs in sorted(tasks.items())
    ]


def is_within(tasks: Tasks, others: TasksOfRole) -> bool:
    """Whether each task is among `others`."""
    return all(number in others.get(subtopology, ()) for subtopology, number in list_tasks(tasks))


def has_common(tasks: TasksOfRole, others: Tasks) -> bool:
    """Whether one task is among `others`."""
    return any(number in others.get(subtopology, ()) for subtopology, number in list_tasks(tasks))
