"""The sticky assignor: each task is active once, loads are even, and what can stay stays."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.groups.streams.assignor import MemberTasks, assign_tasks
from odradek.broker.groups.streams.tasks import TargetTasks, TaskId, list_tasks
from odradek.broker.groups.streams.topology import ConfiguredSubtopology, InternalTopic
from tests.support.examples import examples


def subtopologies(*tasks: int, stateful: bool = True) -> dict[str, ConfiguredSubtopology]:
    changelogs = (InternalTopic("c", 1, 0),) if stateful else ()
    return {
        str(place): ConfiguredSubtopology(str(place), number, (), (), (), changelogs)
        for place, number in enumerate(tasks)
    }


def members(
    processes: dict[str, str], before: dict[str, TargetTasks] | None = None
) -> dict[str, MemberTasks]:
    held = before or {}
    return {
        member_id: MemberTasks(
            process, held.get(member_id, TargetTasks()).active, held.get(member_id, TargetTasks()).standby
        )
        for member_id, process in processes.items()
    }


def active(assigned: dict[str, TargetTasks]) -> dict[TaskId, str]:
    owners: dict[TaskId, str] = {}
    for member_id, tasks in assigned.items():
        for task in list_tasks(tasks.active):
            assert task not in owners, f"{task} is active twice"
            owners[task] = member_id
    return owners


processes = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("PQRS"), min_size=1)


@settings(max_examples=examples(150), deadline=None)
@given(processes, processes, st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(0, 2))
def test_every_task_is_active_once_and_copies_are_in_other_processes(
    first: dict[str, str], then: dict[str, str], tasks: list[int], replicas: int
) -> None:
    topology = subtopologies(*tasks)
    wanted = {(name, number) for name, one in topology.items() for number in range(one.tasks)}
    before = assign_tasks(members(first), topology, standby_replicas=replicas)
    assert active(before).keys() == wanted
    after = assign_tasks(members(then, before), topology, standby_replicas=replicas)
    assert active(after).keys() == wanted
    at: Counter[tuple[str, TaskId]] = Counter()
    for member_id, held in after.items():
        for task in (*list_tasks(held.active), *list_tasks(held.standby)):
            at[then[member_id], task] += 1
    assert set(at.values()) == {1}, "a process has two copies of one task"
    copies = Counter(task for held in after.values() for task in list_tasks(held.standby))
    expected = min(replicas, len(set(then.values())) - 1)
    assert all(copies[task] == expected for task in wanted)
    # Members of processes of one size have as many tasks as each other, but for one.
    if replicas == 0 and len(set(then.values())) == len(then):
        counts = [sum(1 for _ in list_tasks(held.active)) for held in after.values()]
        assert max(counts) - min(counts) <= 1


@settings(max_examples=examples(60), deadline=None)
@given(processes, st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(0, 2))
def test_nothing_moves_while_the_members_are_the_same(
    where: dict[str, str], tasks: list[int], replicas: int
) -> None:
    topology = subtopologies(*tasks)
    before = assign_tasks(members(where), topology, standby_replicas=replicas)
    again = assign_tasks(members(where, before), topology, standby_replicas=replicas)
    stays = sum(active(again)[task] == owner for task, owner in active(before).items())
    if replicas == 0 and len(set(where.values())) == len(where):
        assert again == before
    assert stays >= len(active(before)) - len(where)


def test_only_what_evenness_asks_for_moves_to_a_new_member() -> None:
    topology = subtopologies(6)
    before = assign_tasks(members({"a": "P", "b": "Q"}), topology, standby_replicas=0)
    after = assign_tasks(members({"a": "P", "b": "Q", "c": "R"}, before), topology, standby_replicas=0)
    moved = [task for task, owner in active(after).items() if owner != active(before)[task]]
    assert len(moved) == 2
    assert {active(after)[task] for task in moved} == {"c"}


def test_the_task_of_a_lost_member_goes_to_its_copy() -> None:
    topology = subtopologies(1)
    before = assign_tasks(members({"a": "P", "b": "Q", "c": "R"}), topology, standby_replicas=1)
    lost = next(owner for owner in active(before).values())
    left = {name: process for name, process in {"a": "P", "b": "Q", "c": "R"}.items() if name != lost}
    after = assign_tasks(members(left, before), topology, standby_replicas=1)
    for task, owner in active(before).items():
        if owner == lost:
            holders = {name for name in left if task in set(list_tasks(before[name].standby))}
            assert active(after)[task] in holders


def test_a_member_with_more_of_a_changelog_gets_the_task_first() -> None:
    topology = subtopologies(1)
    there = {
        "a": MemberTasks("P", {}, {}, {("0", 0): 5}),
        "b": MemberTasks("Q", {}, {}, {("0", 0): 9}),
    }
    assert active(assign_tasks(there, topology, standby_replicas=0)) == {("0", 0): "b"}


def test_stateless_tasks_have_no_copies_and_no_members_no_tasks() -> None:
    assigned = assign_tasks(
        members({"a": "P", "b": "Q"}), subtopologies(3, stateful=False), standby_replicas=1
    )
    assert not any(held.standby for held in assigned.values())
    assert assign_tasks({}, subtopologies(3), standby_replicas=1) == {}
