"""A simulated cluster works without faults, and a seed is the same run each time."""

from __future__ import annotations

import pytest

from tests.simulation.simulation import simulate


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
