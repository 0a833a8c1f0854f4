"""Plans move as little as they can, keep racks apart, and leave brokers with equally much."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.admin.plans import Assignment, Plan, Racks, plan_drain, plan_factor, plan_spread
from odradek.foundation.errors import InvalidReplicationFactor
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.placement import place

THREE: Racks = dict.fromkeys((1, 2, 3))


def assigned(
    racks: Racks, *, partitions: int, factor: int, topics: int = 1, seed: int = 1
) -> dict[TopicPartition, tuple[int, ...]]:
    rng = random.Random(seed)
    return {
        TopicPartition(f"t{topic}", number): replicas
        for topic in range(topics)
        for number, replicas in enumerate(
            place(racks, partition_count=partitions, replication_factor=factor, rng=rng)
        )
    }


def after(assignment: Assignment, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    assert all(plan[where] != assignment[where] for where in plan)
    assert all(len(set(replicas)) == len(replicas) for replicas in plan.values())
    return {**assignment, **plan}


def counts(assignment: Assignment) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def leaders(assignment: Assignment) -> Counter[int]:
    return Counter(replicas[0] for replicas in assignment.values())


def racks_of(replicas: tuple[int, ...], racks: Racks) -> int:
    return len({racks.get(broker) for broker in replicas})


def test_a_drained_broker_has_nothing_and_the_others_have_equally_much() -> None:
    racks = dict.fromkeys((1, 2, 3, 4))
    before = assigned(racks, partitions=12, factor=2, topics=3)
    plan = plan_drain(before, racks, leaving={4})
    assert set(plan) == {where for where, replicas in before.items() if 4 in replicas}
    moved = after(before, plan)
    assert counts(moved) == {1: 24, 2: 24, 3: 24}
    assert max(leaders(moved).values()) - min(leaders(moved).values()) <= 2
    # No other replica moves.
    assert all(set(before[where]) - {4} <= set(plan[where]) for where in plan)


def test_a_drain_that_leaves_too_few_brokers_names_partition_and_remedy() -> None:
    before = {TopicPartition("t", 0): (1, 2, 3)}
    with pytest.raises(
        InvalidReplicationFactor, match=r"t-0 .* 3 replicas .* 2 brokers .* add brokers or lower"
    ):
        plan_drain(before, THREE, leaving={2})


def test_replicas_go_to_the_rack_that_has_none() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    plan = plan_drain({TopicPartition("t", 0): (1, 5)}, racks, leaving={5})
    assert plan == {TopicPartition("t", 0): (1, 3)}
    plan = plan_factor({TopicPartition("t", 0): (1,)}, racks, topics={"t"}, factor=3)
    assert plan == {TopicPartition("t", 0): (1, 3, 5)}


def test_more_replicas_than_racks_are_shared_out_among_these() -> None:
    racks: Racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}
    # Those of rack a have less to do.
    before = {TopicPartition("t", 0): (1, 4)} | {TopicPartition("u", number): (5, 6) for number in range(9)}
    (replicas,) = plan_factor(before, racks, topics={"t"}, factor=4).values()
    assert Counter(racks[broker] for broker in replicas) == {"a": 2, "b": 2}


def test_a_new_broker_gets_its_share_and_nobody_else_anything() -> None:
    before = assigned(THREE, partitions=24, factor=2)
    plan = plan_spread(before, {**THREE, 4: None}, onto={4})
    moved = after(before, plan)
    assert counts(moved) == dict.fromkeys((1, 2, 3, 4), 12)
    assert len(plan) == 12
    assert 5 <= leaders(moved)[4] <= 7
    assert all(4 in replicas for replicas in plan.values())


def test_spreading_what_is_spread_moves_nothing() -> None:
    assert plan_spread(assigned(THREE, partitions=30, factor=2), THREE) == {}


def test_spreading_does_not_bring_replicas_into_one_rack() -> None:
    racks = {1: "a", 2: "b", 3: "b"}
    before = {TopicPartition("t", number): (1, 2) for number in range(6)}
    moved = after(before, plan_spread(before, racks))
    assert counts(moved) == {1: 6, 2: 3, 3: 3}


def test_more_replicas_and_fewer() -> None:
    before = assigned(THREE, partitions=6, factor=1)
    grown = after(before, plan_factor(before, THREE, topics={"t0"}, factor=3))
    assert all(grown[where][0] == before[where][0] for where in before)
    assert {len(replicas) for replicas in grown.values()} == {3}
    shrunk = after(grown, plan_factor(grown, THREE, topics={"t0"}, factor=2))
    assert all(shrunk[where][0] == before[where][0] for where in before)
    assert {len(replicas) for replicas in shrunk.values()} == {2}
    assert plan_factor(before, THREE, topics={"another"}, factor=2) == {}
    for factor in (0, 4):
        with pytest.raises(InvalidReplicationFactor):
            plan_factor(before, THREE, topics={"t0"}, factor=factor)


def test_a_replica_that_is_away_goes_first() -> None:
    where = TopicPartition("t", 0)
    assert plan_factor({where: (9, 1, 2)}, THREE, topics={"t"}, factor=2) == {where: (1, 2)}
    assert plan_factor({where: (1, 9, 2)}, THREE, topics={"t"}, factor=2) == {where: (1, 2)}


@given(st.integers(0, 2**32))
def test_whatever_the_cluster_every_plan_keeps_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    choices: list[list[str | None]] = [[None], ["a", "b"], ["a", "b", "c"]]
    names = rng.choice(choices)
    racks: Racks = {broker: rng.choice(names) for broker in range(1, rng.randint(3, 7))}
    factor = rng.randint(1, min(3, len(racks) - 1)) if len(racks) > 1 else 1
    before = assigned(
        racks, partitions=rng.randint(1, 20), factor=factor, topics=rng.randint(1, 3), seed=seed
    )
    gone = rng.choice(sorted(racks))
    left = {broker: rack for broker, rack in racks.items() if broker != gone}
    drained = after(before, plan_drain(before, racks, leaving={gone}))
    assert gone not in counts(drained)
    for where, replicas in drained.items():
        assert len(replicas) == factor
        possible = len(set(left.values()))
        assert racks_of(replicas, racks) >= min(racks_of(before[where], racks), possible, factor)
    spread = after(drained, plan_spread(drained, racks))
    for where, replicas in spread.items():
        assert len(replicas) == factor
        assert racks_of(replicas, racks) >= racks_of(drained[where], racks)
    if names == [None]:
        loads = [counts(spread)[broker] for broker in racks]
        assert max(loads) - min(loads) <= 1
    assert plan_drain(before, racks, leaving={gone}) == plan_drain(before, racks, leaving={gone})


def test_ten_thousand_partitions_move_as_few_replicas_as_can_be() -> None:
    racks = dict.fromkeys(range(1, 7))
    before = assigned(racks, partitions=10_000, factor=3)
    assert len(plan_spread(before, {**racks, 7: None})) == 30_000 // 7
    assert len(plan_drain(before, racks, leaving={6})) == 5_000


MACHINES = {1: "a", 10_001: "a", 2: "b", 10_002: "b", 3: "c", 10_003: "c"}


def assigned_to_machines(partitions: int, *, factor: int) -> dict[TopicPartition, tuple[int, ...]]:
    placed = place(
        dict.fromkeys(MACHINES),
        machines=MACHINES,
        partition_count=partitions,
        replication_factor=factor,
        rng=random.Random(3),
    )
    return {TopicPartition("t", number): replicas for number, replicas in enumerate(placed)}


def machines_of(replicas: tuple[int, ...]) -> list[str]:
    return sorted(MACHINES[broker] for broker in replicas)


def test_what_a_drained_broker_has_stays_on_its_machine() -> None:
    before = assigned_to_machines(24, factor=2)
    moved = after(before, plan_drain(before, dict.fromkeys(MACHINES), leaving={10_001}, machines=MACHINES))
    assert counts(moved)[10_001] == 0
    assert all(machines_of(moved[where]) == machines_of(before[where]) for where in before)


def test_a_drained_machine_gives_all_to_others() -> None:
    before = assigned_to_machines(24, factor=2)
    plan = plan_drain(before, dict.fromkeys(MACHINES), leaving={1, 10_001}, machines=MACHINES)
    assert all(machines_of(replicas) == ["b", "c"] for replicas in after(before, plan).values())
    with pytest.raises(InvalidReplicationFactor, match="4 brokers on 2 machines can take one"):
        three = assigned_to_machines(1, factor=3)
        plan_drain(three, dict.fromkeys(MACHINES), leaving={1, 10_001}, machines=MACHINES)


@given(st.integers(1, 20), st.sets(st.sampled_from(sorted(MACHINES)), min_size=1))
def test_spreads_and_factors_keep_machines_apart(partitions: int, full: set[int]) -> None:
    before = assigned_to_machines(partitions, factor=2)
    full_racks = {broker: None for broker in MACHINES if broker not in full or MACHINES[broker] == "a"}
    for plan in (
        plan_spread(before, full_racks, machines=MACHINES),
        plan_factor(before, dict.fromkeys(MACHINES), topics=["t"], factor=3, machines=MACHINES),
    ):
        moved = after(before, plan)
        assert all(len(set(machines_of(replicas))) == len(replicas) for replicas in moved.values())
