"""A simulated cluster works without faults, and a seed is the same run each time."""

from __future__ import annotations

import gc

import pytest

from tests.simulation.simulation import simulate
from tests.support.loop import VirtualTimeLoop


def test_a_cluster_without_faults_acknowledges_everything() -> None:
    lines = simulate(7, faults=0, actors=()).lines
    sent = sum(" sends p" in line for line in lines)
    assert sent > 0
    assert sum(" p" in line and "acknowledged at" in line for line in lines) >= sent


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [4, 24, 29, 53])
def test_a_seed_replays_exactly(seed: int) -> None:
    assert simulate(seed).digest() == simulate(seed).digest()
    assert simulate(seed).digest() != simulate(seed + 1).digest()


def test_earlier_runs_leave_nothing_in_memory() -> None:
    gc.collect()
    before = {id(one) for one in gc.get_objects() if isinstance(one, VirtualTimeLoop)}
    for seed in (4, 24, 29):
        simulate(seed, faults=1)
    gc.collect()
    left = [one for one in gc.get_objects() if isinstance(one, VirtualTimeLoop) and id(one) not in before]
    assert not left, f"{len(left)} loops of three runs are still referred to"
