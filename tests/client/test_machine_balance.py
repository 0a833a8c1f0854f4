"""A broker that has become one of several shares with its machine alone, and others keep what they have."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.admin.balance_plans import plan_balance
from odradek.client.admin.balance_values import BalancedBroker, ClusterLoad, PartitionLoad
from odradek.client.admin.machine_balance import plan_within_machines
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.placement import place

MIB = 1 << 20


def load_of(*, machines: int, processes: int, partitions: int, factor: int, seed: int) -> ClusterLoad:
    """Every replica is on the first broker of its machine, as when single brokers have become machines."""
    rng = random.Random(seed)
    first = range(1, machines + 1)
    placed = place(dict.fromkeys(first), partition_count=partitions, replication_factor=factor, rng=rng)
    return ClusterLoad(
        brokers={
            number + 10_000 * process: BalancedBroker(machine=str(number))
            for number in first
            for process in range(processes)
        },
        partitions={
            TopicPartition("t", number): PartitionLoad(replicas=replicas, size_bytes=rng.randrange(100 * MIB))
            for number, replicas in enumerate(placed)
        },
    )


@given(st.integers(1, 4), st.integers(2, 4), st.integers(1, 40), st.data(), st.integers(0, 2**32))
def test_no_replica_leaves_its_machine(
    machines: int, processes: int, partitions: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, machines))
    load = load_of(machines=machines, processes=processes, partitions=partitions, factor=factor, seed=seed)
    plan = plan_within_machines(load)
    for where, replicas in plan.moves.items():
        old = load.partitions[where].replicas
        assert [one % 10_000 for one in replicas] == [one % 10_000 for one in old]
    for number in range(1, machines + 1):
        counts = [plan.after[number + 10_000 * process].replicas for process in range(processes)]
        assert sum(counts) == plan.before[number].replicas
        assert max(counts) - min(counts) <= 2 + sum(counts) // 10
    moved = replace(
        load,
        partitions={
            where: replace(one, replicas=plan.moves.get(where, one.replicas))
            for where, one in load.partitions.items()
        },
    )
    assert plan_within_machines(moved).is_empty


def test_a_balance_of_the_cluster_keeps_machines_apart() -> None:
    load = load_of(machines=3, processes=2, partitions=30, factor=3, seed=1)
    plan = plan_balance(load)
    assert plan.moves
    for replicas in plan.moves.values():
        assert len({one % 10_000 for one in replicas}) == 3


def test_brokers_without_a_machine_are_left_alone() -> None:
    load = load_of(machines=2, processes=2, partitions=10, factor=1, seed=1)
    alone = replace(
        load, brokers={number: replace(one, machine=None) for number, one in load.brokers.items()}
    )
    assert plan_within_machines(alone).is_empty
