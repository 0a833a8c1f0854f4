"""Server-side assignors: every partition once, evenly, and with few moves."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.groups.consumer.assignors import ASSIGNORS, assignor
from odradek.broker.groups.consumer.assignors.members import Members, MemberSpec, PartitionCounts
from odradek.broker.groups.consumer.schema import Assignment

T1, T2, T3, T4 = (UUID(int=number) for number in range(1, 5))


def spec(topics: set[UUID], target: Assignment | None = None, instance_id: str | None = None) -> MemberSpec:
    return MemberSpec(instance_id, frozenset(topics), target or {})


def sizes(assignments: dict[str, Assignment]) -> dict[str, int]:
    return {member: sum(map(len, parts.values())) for member, parts in assignments.items()}


def check_complete(members: Members, counts: PartitionCounts, assignments: dict[str, Assignment]) -> None:
    owners: dict[tuple[UUID, int], str] = {}
    for member_id, parts in assignments.items():
        for topic_id, partitions in parts.items():
            assert topic_id in members[member_id].topics
            for partition in partitions:
                assert 0 <= partition < counts[topic_id]
                assert owners.setdefault((topic_id, partition), member_id) == member_id
    subscribed = {topic_id for member in members.values() for topic_id in member.topics}
    wanted = {(topic_id, partition) for topic_id in subscribed for partition in range(counts[topic_id])}
    assert owners.keys() == wanted


def test_range_gives_the_same_numbers_of_every_topic() -> None:
    members = {name: spec({T1, T2}) for name in "abc"}
    assert assignor("range")(members, {T1: 7, T2: 7}) == {
        "a": {T1: frozenset({0, 1, 2}), T2: frozenset({0, 1, 2})},
        "b": {T1: frozenset({3, 4}), T2: frozenset({3, 4})},
        "c": {T1: frozenset({5, 6}), T2: frozenset({5, 6})},
    }


def test_range_puts_static_members_first_by_instance() -> None:
    members = {"a": spec({T1}), "z": spec({T1}, instance_id="1"), "y": spec({T1}, instance_id="2")}
    assigned = assignor("range")(members, {T1: 3})
    assert {member: min(parts[T1]) for member, parts in assigned.items()} == {"z": 0, "y": 1, "a": 2}


def test_range_leaves_out_members_without_partitions() -> None:
    assigned = assignor("range")({"a": spec({T1}), "b": spec({T1, T2})}, {T1: 1, T2: 1})
    assert assigned == {"a": {T1: frozenset({0})}, "b": {T2: frozenset({0})}}


def test_uniform_moves_no_more_than_it_must() -> None:
    before = {
        "a": {T1: frozenset({0, 1, 2})},
        "b": {T1: frozenset({3, 4})},
    }
    same = assignor("uniform")({name: spec({T1}, parts) for name, parts in before.items()}, {T1: 5})
    assert same == before
    members = {name: spec({T1}, parts) for name, parts in before.items()} | {"c": spec({T1})}
    grown = assignor("uniform")(members, {T1: 5})
    assert sorted(sizes(grown).values()) == [1, 2, 2]
    assert grown["a"][T1] < before["a"][T1]
    assert grown["b"] == before["b"]


def test_uniform_with_different_subscriptions_evens_out() -> None:
    members = {"a": spec({T1, T2}), "b": spec({T1}), "c": spec({T2})}
    assigned = assignor("uniform")(members, {T1: 4, T2: 4})
    check_complete(members, {T1: 4, T2: 4}, assigned)
    assert sorted(sizes(assigned).values()) == [2, 3, 3]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_no_members_and_no_topics(name: str) -> None:
    assert assignor(name)({}, {}) == {}
    assert sizes(assignor(name)({"a": spec(set())}, {})) == {"a": 0}


topic_counts = st.fixed_dictionaries({topic: st.integers(0, 9) for topic in (T1, T2, T3, T4)})
subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]),
    st.sets(st.sampled_from([T1, T2, T3, T4])),
    min_size=1,
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASSIGNORS)
@given(counts=topic_counts, before=subscriptions, after=subscriptions)
def test_always_complete_and_stable(
    name: str, counts: dict[UUID, int], before: dict[str, set[UUID]], after: dict[str, set[UUID]]
) -> None:
    assign = assignor(name)
    first = assign({member: spec(topics) for member, topics in before.items()}, counts)
    members = {member: spec(topics, first.get(member)) for member, topics in after.items()}
    second = assign(members, counts)
    check_complete(members, counts, second)
    again = {member: spec(topics, second.get(member)) for member, topics in after.items()}
    assert assign(again, counts) == {member: second.get(member, {}) for member in after}


@given(counts=topic_counts, before=subscriptions, names=st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_uniform_shares_differ_by_one_at_most(
    counts: dict[UUID, int], before: dict[str, set[UUID]], names: set[str]
) -> None:
    assign = assignor("uniform")
    first = assign({member: spec(topics) for member, topics in before.items()}, counts)
    mapped = dict(zip(sorted(names), first.values(), strict=False))
    members = {name: spec({T1, T2}, mapped.get(name)) for name in names}
    shares = sizes(assign(members, counts)).values()
    assert max(shares) - min(shares) <= 1


@given(counts=topic_counts, members=subscriptions)
def test_uniform_no_single_move_makes_it_more_even(
    counts: dict[UUID, int], members: dict[str, set[UUID]]
) -> None:
    specs = {member: spec(topics) for member, topics in members.items()}
    assigned = assignor("uniform")(specs, counts)
    shares = sizes(assigned)
    for member, parts in assigned.items():
        for topic_id in parts:
            for other, topics in members.items():
                if topic_id in topics:
                    assert shares[member] - shares[other] <= 1
