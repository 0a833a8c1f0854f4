"""A sample of `make sim`: a whole cluster on virtual time keeps its promises under every fault."""

from __future__ import annotations

import pytest

from tests.simulation.simulation import simulate

SEEDS = range(1, 61)


@pytest.mark.virtual
@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    simulate(seed)
