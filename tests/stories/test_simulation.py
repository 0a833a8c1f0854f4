"""A sample of `make sim`: a whole cluster on virtual time keeps its promises under every fault."""

from __future__ import annotations

import pytest

from tests.simulation import (
    test_planted_bugs,
    test_planted_bugs_of_compaction,
    test_planted_bugs_of_transactions,
)
from tests.simulation.planting import Bug, must_find
from tests.simulation.simulation import simulate

SEEDS = range(1, 61)
MODULES = (test_planted_bugs, test_planted_bugs_of_compaction, test_planted_bugs_of_transactions)
BUGS: dict[str, Bug] = {bug.plant.__name__.strip("_"): bug for module in MODULES for bug in module.BUGS}
# Those that the fewest seeds find.
PLANTED = (
    "answer_commits_at_once",
    "forget_markers_at_a_failover",
    "lead_from_less",
    "note_a_round_before_its_end",
    "give_everybody_everything",
    "skip_the_epoch_of_the_last_record",
)


@pytest.mark.virtual
@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    simulate(seed)


@pytest.mark.virtual
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    must_find(BUGS[name], monkeypatch)
