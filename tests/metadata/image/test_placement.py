"""Replicas go around the brokers, and around the racks."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import InvalidReplicationFactor
from odradek.metadata.image.placement import place


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
