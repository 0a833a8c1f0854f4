"""Replicas go around the brokers, and around the racks."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.placement import place
from odradek.foundation.errors import InvalidReplicationFactor


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


def test_neighbours_are_in_different_racks() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "b", 3: "b"}
    for seed in range(20):
        placed = place(racks, partition_count=8, replication_factor=2, rng=random.Random(seed))
        leaders = [racks[replicas[0]] for replicas in placed]
        assert all(first != second for first, second in pairwise(leaders))


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(InvalidReplicationFactor, match="only 2 broker"):
        place({1: None, 2: None}, partition_count=1, replication_factor=3, rng=random.Random(1))
