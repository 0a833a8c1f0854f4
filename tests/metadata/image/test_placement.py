"""Replicas go around the brokers, and around the racks."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odradek.foundation.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from odradek.metadata.image.placement import check_assignment, place


@given(st.integers(1, 8), st.integers(1, 30), st.data(), st.integers(0, 2**32))
def test_leaders_and_replicas_are_spread_evenly(
    brokers: int, partitions: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, brokers))
    placed = place(
        dict.fromkeys(range(brokers)),
        partition_count=partitions,
        replication_factor=factor,
        rng=random.Random(seed),
    )
    assert len(placed) == partitions
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - (min(leaders.values()) if len(leaders) == brokers else 0) <= 1


@given(st.integers(1, 8), st.integers(1, 30), st.integers(0, 2**32), st.data())
def test_a_topic_that_grows_is_led_evenly(brokers: int, added: int, seed: int, data: st.DataObject) -> None:
    """From any number of partitions, above all from the one that a client has made before the topic was declared."""
    first = data.draw(st.integers(1, 9))
    racks: dict[int, str | None] = dict.fromkeys(range(brokers))
    rng = random.Random(seed)
    old = [replicas[0] for replicas in place(racks, partition_count=first, replication_factor=1, rng=rng)]
    grown = place(racks, partition_count=added, replication_factor=1, rng=rng, leaders=old)
    leaders = Counter([*old, *(replicas[0] for replicas in grown)])
    assert max(leaders.values()) - (min(leaders.values()) if len(leaders) == brokers else 0) <= 1


def test_neighbours_are_in_different_racks() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: "b"}
    for seed in range(20):
        placed = place(racks, partition_count=8, replication_factor=2, rng=random.Random(seed))
        leaders = [racks[replicas[0]] for replicas in placed]
        assert all(first != second for first, second in pairwise(leaders))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data(), st.integers(0, 2**32))
def test_a_rack_has_two_replicas_only_when_every_other_has_one(
    sizes: list[int], data: st.DataObject, seed: int
) -> None:
    racks = {
        broker: f"rack {rack}"
        for broker, rack in enumerate(rack for rack, size in enumerate(sizes) for _ in range(size))
    }
    factor = data.draw(st.integers(1, len(racks)))
    placed = place(racks, partition_count=2 * len(racks), replication_factor=factor, rng=random.Random(seed))
    for replicas in placed:
        assert len(set(replicas)) == factor
        taken = Counter(racks[broker] for broker in replicas)
        for rack, size in enumerate(sizes):
            # Fewer than another by more than one only where it has no broker left.
            assert taken[f"rack {rack}"] >= min(size, max(taken.values()) - 1)


def test_replicas_of_equal_racks_are_spread_evenly() -> None:
    racks: dict[int, str | None] = {broker: f"rack {broker % 3}" for broker in range(6)}
    placed = place(racks, partition_count=300, replication_factor=3, rng=random.Random(1))
    kept = Counter(broker for replicas in placed for broker in replicas)
    assert max(kept.values()) <= 1.2 * min(kept.values()), kept


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(InvalidReplicationFactor, match="only 2 broker"):
        place({1: None, 2: None}, partition_count=1, replication_factor=3, rng=random.Random(1))


@given(st.integers(1, 6), st.integers(0, 4), st.integers(1, 20), st.data(), st.integers(0, 2**32))
def test_brokers_that_are_away_come_last_and_never_lead(
    live: int, away: int, partitions: int, data: st.DataObject, seed: int
) -> None:
    factor = data.draw(st.integers(1, live + away))
    placed = place(
        dict.fromkeys(range(live)),
        away=dict.fromkeys(range(live, live + away)),
        partition_count=partitions,
        replication_factor=factor,
        rng=random.Random(seed),
    )
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas == (
            *(one for one in replicas if one < live),
            *(one for one in replicas if one >= live),
        )
        assert sum(one < live for one in replicas) == min(factor, live)
    kept = Counter(one for replicas in placed for one in replicas if one >= live)
    assert (
        max(kept.values(), default=0) - min((kept[one] for one in range(live, live + away)), default=0)
        <= factor
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4), st.data())
def test_racks_count_more_than_that_a_broker_is_away(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    names = [
        (f"rack {rack}", is_away)
        for rack, (live, away) in enumerate(sizes)
        for is_away in [False] * live + [True] * away
    ]
    brokers: dict[int, str | None] = {one: name for one, (name, is_away) in enumerate(names) if not is_away}
    away: dict[int, str | None] = {one: name for one, (name, is_away) in enumerate(names) if is_away}
    assume(brokers)
    factor = data.draw(st.integers(1, len(names)))
    for replicas in place(
        brokers, away=away, partition_count=8, replication_factor=factor, rng=random.Random(factor)
    ):
        assert len(set(replicas)) == factor
        assert replicas[0] in brokers
        taken = Counter(names[one][0] for one in replicas)
        for rack, (live, gone) in enumerate(sizes):
            assert taken[f"rack {rack}"] >= min(live + gone, max(taken.values()) - 1)
            # Of one rack, those that are away come after the others.
            ours = [one for one in replicas if names[one][0] == f"rack {rack}"]
            assert sum(one in brokers for one in ours) == min(live, len(ours))


def test_no_partition_is_placed_while_all_brokers_are_away() -> None:
    with pytest.raises(InvalidReplicationFactor, match="All brokers are currently fenced"):
        place({}, away={1: None}, partition_count=1, replication_factor=1, rng=random.Random(1))
    with pytest.raises(InvalidReplicationFactor, match="only 2 broker"):
        place({1: None}, away={2: None}, partition_count=1, replication_factor=3, rng=random.Random(1))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4), st.data())
def test_a_machine_never_has_two_replicas_of_a_partition(
    rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Each row is a rack with so many machines, of so many brokers each; some brokers are away."""
    racks: dict[int, str | None] = {}
    machines: dict[int, str] = {}
    for rack, (machine_count, brokers) in enumerate(rows):
        for number in range(machine_count * brokers):
            machines[len(racks)] = f"{rack}-{number % machine_count}"
            racks[len(racks)] = f"rack {rack}"
    away = data.draw(st.sets(st.sampled_from(sorted(racks)), max_size=len(racks) - 1))
    factor = data.draw(st.integers(1, len(set(machines.values()))))
    placed = place(
        {one: rack for one, rack in racks.items() if one not in away},
        away={one: rack for one, rack in racks.items() if one in away},
        machines=machines,
        partition_count=12,
        replication_factor=factor,
        rng=random.Random(data.draw(st.integers(0, 2**32))),
    )
    machines_of_rack = {f"rack {rack}": count for rack, (count, _) in enumerate(rows)}
    for replicas in placed:
        assert len(replicas) == len({machines[one] for one in replicas}) == factor
        taken = Counter(racks[one] for one in replicas)
        # A rack has more than another only where all machines of the other have a replica.
        assert all(
            taken[rack] >= max(taken.values()) - 1 or taken[rack] == count
            for rack, count in machines_of_rack.items()
        )


@pytest.mark.parametrize("processes", [2, 4])
def test_brokers_of_equal_machines_get_equally_much(processes: int) -> None:
    machines = {
        number + 10_000 * process: str(number) for number in range(1, 5) for process in range(processes)
    }
    placed = place(
        dict.fromkeys(machines),
        machines=machines,
        partition_count=60 * processes,
        replication_factor=3,
        rng=random.Random(7),
    )
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {15}
    replicas = Counter(broker for one in placed for broker in one)
    assert max(replicas.values()) - min(replicas.values()) <= 10


def test_more_replicas_than_machines_are_refused() -> None:
    machines = {1: "a", 2: "a", 3: "b"}
    with pytest.raises(InvalidReplicationFactor, match="run on 2 machines, and no machine has two replicas"):
        place(
            dict.fromkeys(machines),
            machines=machines,
            partition_count=1,
            replication_factor=3,
            rng=random.Random(1),
        )


def test_a_given_assignment_has_a_machine_once() -> None:
    machines = {1: "a", 2: "a", 3: "b"}
    known: dict[int, str | None] = dict.fromkeys(machines)
    check_assignment([(1, 3), (3, 2)], brokers=known, active=known, machines=machines)
    with pytest.raises(InvalidReplicaAssignment, match="several run on one machine"):
        check_assignment([(1, 3), (1, 2)], brokers=known, active=known, machines=machines)
