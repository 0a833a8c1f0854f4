"""The planner levels disks, replicas, leaders and rates, keeps the hard rules, and moves no more than helps."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.admin.balance_plans import excesses, plan_balance
from odradek.client.admin.balance_values import (
    BalancedBroker,
    BalanceGoal,
    BalancePlan,
    BalanceTolerance,
    ClusterLoad,
    PartitionLoad,
)
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.placement import place

GIB = 1 << 30
EXACT = BalanceTolerance(disk_bytes=0, bytes_per_second=0)


def cluster(
    brokers: dict[int, str | None],
    partitions: list[PartitionLoad],
    **more: BalancedBroker,
) -> ClusterLoad:
    return ClusterLoad(
        brokers={broker: BalancedBroker(rack=rack) for broker, rack in brokers.items()}
        | {int(name.removeprefix("b")): one for name, one in more.items()},
        partitions={TopicPartition("t", number): one for number, one in enumerate(partitions)},
    )


def after(load: ClusterLoad, plan: BalancePlan) -> ClusterLoad:
    """The cluster once the plan has ended, with its preferred leaders leading."""
    changed = {
        where: replace(one, replicas=plan.moves.get(where, one.replicas))
        for where, one in load.partitions.items()
    }
    elected = {*plan.moves, *plan.elections}
    return replace(
        load,
        partitions={
            where: replace(one, leader=None if where in elected else one.leader)
            for where, one in changed.items()
        },
    )


def replicas_of(load: ClusterLoad) -> dict[int, int]:
    return {
        broker: sum(broker in one.replicas for one in load.partitions.values()) for broker in load.brokers
    }


def test_disks_are_levelled_by_the_partition_that_fits() -> None:
    full = [PartitionLoad(replicas=(1,), size_bytes=one * GIB) for one in (50, 30, 20, 10)]
    load = cluster({1: None, 2: None}, [*full, *[PartitionLoad(replicas=(2,))] * 4])
    plan = plan_balance(load)
    # An empty partition takes its place, so that both have as many.
    assert plan.moves == {TopicPartition("t", 0): (2,), TopicPartition("t", 4): (1,)}
    assert plan.bytes_to_move == 50 * GIB
    assert {broker: one.size_bytes // GIB for broker, one in plan.before.items()} == {1: 110, 2: 0}
    assert {broker: one.size_bytes // GIB for broker, one in plan.after.items()} == {1: 60, 2: 50}


def test_a_larger_disk_gets_more() -> None:
    small = BalancedBroker(capacity_bytes=100 * GIB, free_bytes=60 * GIB)
    large = BalancedBroker(capacity_bytes=300 * GIB, free_bytes=300 * GIB)
    load = cluster({}, [PartitionLoad(replicas=(1,), size_bytes=GIB)] * 40, b1=small, b2=large)
    assert replicas_of(after(load, plan_balance(load)))[2] in (29, 30, 31)


def test_nothing_goes_where_there_is_no_room() -> None:
    roomy = BalancedBroker(capacity_bytes=100 * GIB, free_bytes=60 * GIB)
    tight = BalancedBroker(capacity_bytes=100 * GIB, free_bytes=18 * GIB)
    load = cluster({}, [PartitionLoad(replicas=(1,), size_bytes=GIB)] * 40, b1=roomy, b2=tight)
    plan = plan_balance(load)
    assert len(plan.moves) == 8
    assert plan.unmet == (BalanceGoal.DISK, BalanceGoal.REPLICAS, BalanceGoal.LEADERS)
    assert plan.without_room == (2,)


def test_brokers_on_one_nearly_full_disk_are_levelled() -> None:
    disk = BalancedBroker(capacity_bytes=1000 * GIB, free_bytes=40 * GIB)
    small = [PartitionLoad(replicas=(1,), size_bytes=1 << 20)] * 40
    plan = plan_balance(cluster({}, small, b1=disk, b2=disk))
    assert len(plan.moves) == 19 and plan.unmet == plan.without_room == ()
    large = [PartitionLoad(replicas=(1,), size_bytes=GIB)] * 40
    plan = plan_balance(cluster({}, large, b1=disk, b2=disk))
    assert plan.moves == {} and plan.without_room == (2,)


def test_a_nearly_full_broker_is_filled_up_to_the_fullest() -> None:
    fullest = BalancedBroker(capacity_bytes=100 * GIB, free_bytes=2 * GIB)
    full = BalancedBroker(capacity_bytes=200 * GIB, free_bytes=14 * GIB)
    load = cluster({}, [PartitionLoad(replicas=(1,), size_bytes=GIB)] * 98, b1=fullest, b2=full)
    assert len(plan_balance(load).moves) == 10
    # One that neither gives nor receives is no measure.
    away = replace(fullest, takes_part=False)
    load = cluster({}, [PartitionLoad(replicas=(2,), size_bytes=GIB)] * 90, b1=away, b2=full, b3=full)
    assert plan_balance(load).moves == {}


def test_differences_within_the_tolerance_move_nothing() -> None:
    sizes = [(1, 100), (2, 104), (3, 97)]
    partitions = [PartitionLoad(replicas=(broker,), size_bytes=size * GIB) for broker, size in sizes]
    load = cluster(dict.fromkeys((1, 2, 3)), partitions)
    assert plan_balance(load).is_empty
    # Few bytes are no difference, whatever their share.
    small = [replace(one, size_bytes=one.size_bytes // (1 << 20)) for one in partitions]
    small[0] = replace(small[0], size_bytes=200 << 20)
    assert plan_balance(cluster(dict.fromkeys((1, 2, 3)), small)).is_empty


def test_the_smallest_replicas_move_where_only_the_number_is_uneven() -> None:
    partitions = [PartitionLoad(replicas=(1,), size_bytes=number << 20) for number in range(8)]
    load = cluster({1: None, 2: None}, partitions)
    plan = plan_balance(load)
    assert sorted(where.partition for where in plan.moves) == [0, 1, 2, 3]
    assert plan.bytes_to_move == 6 << 20


def test_leaders_change_without_moving_a_byte() -> None:
    load = cluster(dict.fromkeys((1, 2, 3)), [PartitionLoad(replicas=(1, 2, 3), size_bytes=GIB)] * 9)
    plan = plan_balance(load)
    assert (plan.bytes_to_move, plan.replica_moves, plan.leader_moves) == (0, 0, 6)
    assert {one.leaders for one in plan.after.values()} == {3}


def test_replicas_of_one_rack_are_spread_and_the_leader_stays() -> None:
    load = cluster({1: "a", 2: "a", 3: "b", 4: "c"}, [PartitionLoad(replicas=(1, 2))])
    plan = plan_balance(load)
    assert plan.moves == {TopicPartition("t", 0): (1, 3)}
    assert excesses(load)[0] == 1
    assert excesses(after(load, plan))[0] == 0


def test_rates_are_levelled_by_moves_that_leave_disks_alone() -> None:
    rates = [(1, 4 << 20), (1, 4 << 20), (2, 0), (2, 0)]
    partitions = [
        PartitionLoad(replicas=(broker,), size_bytes=GIB, bytes_in_per_second=rate) for broker, rate in rates
    ]
    load = cluster({1: None, 2: None}, [*partitions, *[PartitionLoad(replicas=(one,)) for one in (1, 2)]])
    plan = plan_balance(load, BalanceTolerance(share=0.5))
    assert {one.bytes_in_per_second for one in plan.after.values()} == {4 << 20}
    assert {broker: one.size_bytes // GIB for broker, one in plan.after.items()} in (
        {1: 1, 2: 3},
        {1: 2, 2: 2},
    )


def test_what_consumers_read_is_levelled_by_leaders() -> None:
    partitions = [
        PartitionLoad(replicas=(1, 2), bytes_read_per_second=8 << 20),
        PartitionLoad(replicas=(1, 2), bytes_read_per_second=8 << 20),
        PartitionLoad(replicas=(2, 1)),
        PartitionLoad(replicas=(2, 1)),
    ]
    load = cluster({1: None, 2: None}, partitions)
    # Leaders are even; one more or fewer is within the tolerance.
    plan = plan_balance(load, BalanceTolerance(share=0.5))
    assert plan.bytes_to_move == 0
    assert {one.bytes_out_per_second for one in plan.after.values()} == {8 << 20}


def test_brokers_that_are_away_or_take_no_part_are_left_alone() -> None:
    partitions = [PartitionLoad(replicas=(1, 9)) for _ in range(6)] + [PartitionLoad(replicas=(3, 9))] * 3
    load = cluster(
        {1: None, 2: None},
        partitions,
        b3=BalancedBroker(takes_part=False),
        b4=BalancedBroker(may_receive=False),
    )
    found = replicas_of(after(load, plan_balance(load)))
    assert (found[3], found[4]) == (3, 0)
    assert found[2] == 2
    assert all(9 in one.replicas for one in after(load, plan_balance(load)).partitions.values())


def test_preferred_leaders_are_elected_where_leaders_are_uneven() -> None:
    partitions = [PartitionLoad(replicas=(1, 2), leader=2), PartitionLoad(replicas=(2, 1), leader=2)] * 4
    load = cluster({1: None, 2: None}, partitions)
    plan = plan_balance(load)
    assert plan.moves == {}
    assert sorted(where.partition for where in plan.elections) == [0, 2, 4, 6]
    assert plan.before[2].leaders == 8
    assert plan_balance(after(load, plan)).is_empty
    # One that is led by another does no harm, and is elected by the cluster itself.
    few = [PartitionLoad(replicas=(1, 2), leader=leader) for leader in (2, 1)]
    assert plan_balance(cluster({1: None, 2: None}, [*few, PartitionLoad(replicas=(2, 1))])).is_empty


def test_a_bound_on_steps_ends_a_plan_and_the_next_one_continues() -> None:
    load = cluster({1: None, 2: None}, [PartitionLoad(replicas=(1,))] * 20)
    first = plan_balance(load, steps_max=4)
    assert (len(first.moves), first.is_unfinished) == (4, True)
    rest = plan_balance(after(load, first))
    assert (len(rest.moves), rest.is_unfinished) == (6, False)


def test_a_cluster_without_brokers_or_partitions_has_no_plan() -> None:
    assert plan_balance(ClusterLoad(brokers={}, partitions={})).is_empty
    assert plan_balance(cluster({1: None}, [])).is_empty


RACKS: list[list[str | None]] = [[None], ["a", "b"], ["a", "b", "c"]]


def any_cluster(rng: random.Random) -> ClusterLoad:
    names = rng.choice(RACKS)
    count = rng.randint(1, 7)
    brokers = {
        broker: BalancedBroker(
            rack=rng.choice(names), takes_part=rng.random() < 0.9, may_receive=rng.random() < 0.9
        )
        for broker in range(count)
    }
    ids = [*brokers, count + 7]  # the last is away
    partitions = {}
    for number in range(rng.randint(0, 30)):
        replicas = tuple(rng.sample(ids, rng.randint(1, min(3, len(ids)))))
        partitions[TopicPartition(f"t{number % 3}", number // 3)] = PartitionLoad(
            replicas=replicas,
            leader=rng.choice([None, *replicas]),
            size_bytes=rng.randint(0, 100) * rng.choice([1, 1 << 20, 1 << 30]),
            bytes_in_per_second=rng.randint(0, 10) << rng.randint(0, 20),
            bytes_read_per_second=rng.randint(0, 10) << rng.randint(0, 20),
        )
    return ClusterLoad(brokers=brokers, partitions=partitions)


def racks_of(load: ClusterLoad, replicas: tuple[int, ...]) -> int:
    return len({load.brokers[one].rack if one in load.brokers else None for one in replicas})


TOLERANCES = [EXACT, BalanceTolerance(), BalanceTolerance(share=0.3)]


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(TOLERANCES))
def test_whatever_the_cluster_a_plan_keeps_the_rules(seed: int, tolerance: BalanceTolerance) -> None:
    check_rules(any_cluster(random.Random(seed)), tolerance)


@pytest.mark.thorough
@settings(max_examples=1000)
@given(st.integers(0, 2**32), st.sampled_from(TOLERANCES))
def test_a_thousand_clusters_keep_the_rules(seed: int, tolerance: BalanceTolerance) -> None:
    check_rules(any_cluster(random.Random(seed)), tolerance)


def check_rules(load: ClusterLoad, tolerance: BalanceTolerance) -> None:
    plan = plan_balance(load, tolerance)
    found = after(load, plan)
    for where, one in load.partitions.items():
        replicas = found.partitions[where].replicas
        assert len(set(replicas)) == len(replicas) == len(one.replicas)
        assert racks_of(load, replicas) >= racks_of(load, one.replicas)
        for broker in set(replicas) - set(one.replicas):
            assert load.brokers[broker].takes_part
            assert load.brokers[broker].may_receive
        for broker in set(one.replicas) - set(replicas):
            assert broker in load.brokers
            assert load.brokers[broker].takes_part
    # No goal is worse, but for one that comes after a goal that is better.
    assert excesses(found, tolerance) <= excesses(load, tolerance)
    assert plan.moves == {} or excesses(found, tolerance) < excesses(load, tolerance)
    assert all(replicas != load.partitions[where].replicas for where, replicas in plan.moves.items())
    assert not plan.is_unfinished
    assert plan_balance(load, tolerance) == plan
    assert plan_balance(found, tolerance).is_empty
    assert plan.bytes_to_move == sum(
        load.partitions[where].size_bytes * len(set(replicas) - set(load.partitions[where].replicas))
        for where, replicas in plan.moves.items()
    )


def large(brokers: int, *, filled: int, partitions: int) -> ClusterLoad:
    """Partitions on the first `filled` of the brokers, with sizes and rates of all kinds."""
    rng = random.Random(7)
    racks: dict[int, str | None] = {broker: "abc"[broker % 3] for broker in range(brokers)}
    placed = place(
        {broker: racks[broker] for broker in range(filled)},
        partition_count=partitions,
        replication_factor=3,
        rng=rng,
    )
    return cluster(
        racks,
        [
            PartitionLoad(
                replicas=replicas,
                size_bytes=int(rng.paretovariate(1.2) * (64 << 20)),
                bytes_in_per_second=int(rng.paretovariate(1.2) * (16 << 10)),
                bytes_read_per_second=int(rng.paretovariate(1.2) * (16 << 10)),
            )
            for replicas in placed
        ],
    )


def test_hundreds_of_partitions_are_levelled_onto_new_brokers() -> None:
    load = large(6, filled=4, partitions=200)
    plan = plan_balance(load)
    # A few partitions have most of the traffic.
    assert set(plan.unmet) <= {BalanceGoal.BYTES_IN, BalanceGoal.BYTES_OUT}
    fair = sum(one.size_bytes for one in plan.before.values()) / 6
    assert all(abs(one.size_bytes - fair) <= 0.06 * fair for one in plan.after.values())
    # A third of all bytes are to be on the new ones, and few more move.
    assert plan.bytes_to_move < 1.2 * 2 * fair
    assert plan_balance(after(load, plan)).is_empty


@pytest.mark.thorough
@pytest.mark.parametrize(("brokers", "filled"), [(6, 3), (12, 9), (30, 27)])
def test_ten_thousand_partitions_are_planned_within_seconds(brokers: int, filled: int) -> None:
    load = large(brokers, filled=filled, partitions=10_000)
    before = plan_balance(load)
    assert set(before.unmet) <= {BalanceGoal.DISK, BalanceGoal.BYTES_IN, BalanceGoal.BYTES_OUT}
    assert plan_balance(after(load, before)).is_empty


def test_a_new_broker_gets_a_part_of_a_busy_topic_that_keeps_little() -> None:
    idle = {TopicPartition("idle", number): PartitionLoad(replicas=(1, 2, 3)) for number in range(30)}
    busy = {
        TopicPartition("orders", number): PartitionLoad(replicas=(1, 2, 3), size_bytes=4 << 20)
        for number in range(6)
    }
    load = ClusterLoad(
        brokers={broker: BalancedBroker(rack=None) for broker in (1, 2, 3, 4)}, partitions=idle | busy
    )
    held = after(load, plan_balance(load)).partitions
    assert any(4 in held[where].replicas for where in busy)
