"""A whole cluster on virtual time keeps its promises under every fault, and a seed is the same run each time.

`make sim SEEDS=1000 SEED=1` plays more seeds; a failure prints the history of the run and how to play it again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.simulation import simulate

# A seed costs 0.7 s of CPU, and `make sim` plays as many more as one likes.
SEEDS: Final = 500
ROOT: Final = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_every_promise_is_kept() -> None:
    """As `make sim` does, on all cores: some minutes."""
    played = subprocess.run(
        [sys.executable, "-m", "tests.simulation"],
        cwd=ROOT,
        env={**os.environ, "SEEDS": str(SEEDS), "SEED": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'broker'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(played.stdout)
    assert played.returncode == 0, played.stdout
    assert f"held: {SEEDS} seeds from 1" in played.stdout


def test_a_cluster_without_faults_acknowledges_everything() -> None:
    lines = simulate(7, faults=0, actors=()).lines
    sent = sum(" sends p" in line for line in lines)
    assert sent > 0
    assert sum(" p" in line and "acknowledged at" in line for line in lines) >= sent


@pytest.mark.parametrize("seed", [4, 24, 29, 53])
def test_a_seed_replays_exactly(seed: int) -> None:
    assert simulate(seed).digest() == simulate(seed).digest()
    assert simulate(seed).digest() != simulate(seed + 1).digest()
