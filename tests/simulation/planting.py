"""How a bug is planted into a simulated cluster, and found: within a bounded number of seeds, by the right checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pytest

from tests.simulation.history import InvariantBroken
from tests.simulation.simulation import simulate

Plant = Callable[[pytest.MonkeyPatch], None]

SEED_FIRST: Final = 11
# With two to three seconds each, a bug that no seed finds fails in its words, within the time that a test has.
SEEDS_MAX: Final = 60
FAULTS: Final = 8


class Bug(NamedTuple):
    """A planted bug, what brings it out, and which invariants may find it."""

    plant: Plant
    kinds: tuple[str, ...]
    invariants: tuple[str, ...]
    actors: tuple[str, ...] = ()
    faults: int = FAULTS
    seed_first: int = SEED_FIRST
    """Where to begin: what comes before does not find it, and every second of `make test` counts."""


def must_find(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play seeds with the bug until one breaks an invariant, and that seed once more without it."""
    bug.plant(monkeypatch)
    for seed in range(bug.seed_first, bug.seed_first + SEEDS_MAX):
        try:
            simulate(seed, faults=bug.faults, kinds=bug.kinds, actors=bug.actors)
        except InvariantBroken as found:
            assert str(found).partition(":")[0] in bug.invariants, str(found)
            monkeypatch.undo()
            simulate(
                seed, faults=bug.faults, kinds=bug.kinds, actors=bug.actors
            )  # It is the bug that was found.
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not find it")
