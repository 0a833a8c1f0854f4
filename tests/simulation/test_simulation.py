"""A whole cluster on virtual time keeps its promises under every fault, and a seed is the same run each time.

`make sim SEEDS=1000 SEED=1` plays more seeds; a failure prints the history of the run and how to play it again.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulation import simulate

SEEDS = range(1, 25)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    simulate(seed)


def test_a_cluster_without_faults_acknowledges_everything() -> None:
    lines = simulate(7, faults=0).lines
    sent = sum(" sends p" in line for line in lines)
    assert sent > 0
    assert sum(" p" in line and "acknowledged at" in line for line in lines) >= sent


@pytest.mark.parametrize("seed", [4, 24])
def test_a_seed_replays_exactly(seed: int) -> None:
    assert simulate(seed).digest() == simulate(seed).digest()
    assert simulate(seed).digest() != simulate(seed + 1).digest()
