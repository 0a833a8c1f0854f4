"""Which brokers get and lose replicas when their number changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek_operator.gateways.topic_values import ActualPartition
from odradek_operator.reconcilers.topic.replicas import with_replicas


def partition(
    number: int, *replicas: int, in_sync: tuple[int, ...] | None = None, leader: int | None = None
) -> ActualPartition:
    return ActualPartition(
        number=number,
        leader=replicas[0] if leader is None else leader,
        replicas=replicas,
        in_sync=replicas if in_sync is None else in_sync,
    )


def test_replicas_are_spread_over_the_brokers() -> None:
    brokers = dict.fromkeys(range(4))
    moves = with_replicas([partition(number, number) for number in range(4)], 2, brokers=brokers)
    added = [broker for replicas in moves.values() for broker in replicas[1:]]
    assert sorted(added) == [0, 1, 2, 3]
    assert all(replicas[0] == number for number, replicas in moves.items())


def test_another_rack_comes_first() -> None:
    brokers = {0: "a", 1: "a", 2: "b", 3: "b"}
    (replicas,) = with_replicas([partition(0, 0)], 2, brokers=brokers).values()
    assert replicas[1] in (2, 3)


def test_the_leader_and_those_in_sync_stay() -> None:
    brokers = dict.fromkeys(range(3))
    assert with_replicas([partition(0, 0, 1, 2, in_sync=(1, 2), leader=1)], 1, brokers=brokers) == {0: (1,)}
    assert with_replicas([partition(0, 0, 1, 2, in_sync=(0, 2))], 2, brokers=brokers) == {0: (0, 2)}


def test_partitions_that_are_as_wanted_or_becoming_so_are_left_alone() -> None:
    brokers = dict.fromkeys(range(3))
    moving = ActualPartition(number=1, leader=0, replicas=(0, 1, 2), in_sync=(0,), adding=(1,), removing=(2,))
    assert with_replicas([partition(0, 0, 1), moving], 2, brokers=brokers) == {}


@pytest.mark.thorough
@given(st.data())
def test_whatever_there_is_comes_out_with_so_many_distinct_replicas(data: st.DataObject) -> None:
    ids = data.draw(st.sets(st.integers(0, 30), min_size=1, max_size=8))
    wanted = data.draw(st.integers(1, len(ids)))
    partitions = []
    for number in range(data.draw(st.integers(1, 6))):
        replicas = data.draw(
            st.lists(st.sampled_from(sorted(ids)), min_size=1, max_size=len(ids), unique=True)
        )
        leader = data.draw(st.sampled_from([*replicas, -1]))
        in_sync = tuple(broker for broker in replicas if data.draw(st.booleans()))
        partitions.append(partition(number, *replicas, in_sync=in_sync, leader=leader))
    moves = with_replicas(partitions, wanted, brokers=dict.fromkeys(ids))
    for before in partitions:
        after = moves.get(before.number, before.replicas)
        assert len(set(after)) == len(after) == wanted
        assert set(after) <= ids
        if before.leader >= 0:
            assert before.leader in after


def test_a_machine_gets_no_second_replica() -> None:
    machines = {1: "a", 10_001: "a", 2: "b", 10_002: "b"}
    brokers = dict.fromkeys(machines)
    moves = with_replicas(
        [partition(number, broker) for number, broker in enumerate(brokers)],
        2,
        brokers=brokers,
        machines=machines,
    )
    assert all({machines[broker] for broker in replicas} == {"a", "b"} for replicas in moves.values())
    with pytest.raises(ValueError, match="3 replicas need 3 machines, and the cluster has 2"):
        with_replicas([partition(0, 1)], 3, brokers=brokers, machines=machines)
