"""No test of the quick run takes more of the processor than its budget: tests/budget.toml.

The costs are those of the last `make test`. A test that comes first pays for what others find loaded, another one for
the garbage of those before it. A busy machine takes longer. So what took twice its budget and half a second is measured
again by itself, where all it needs is loaded. A test fails here when it takes as much once more.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.costs import CHECKOUT, Cost, Row, read_costs, slowness
from tests.support.peers import skip_or_fail

SECONDS_OF_OTHERS = 0.5
# More than a busy machine makes of tests that keep their budget.
SUSPECTS_MAX = 40
LAST_QUICK_RUN = CHECKOUT / ".cache" / "costs-of-test.tsv"
BUDGET = tomllib.loads((CHECKOUT / "tests" / "budget.toml").read_text())


def too_expensive(rows: list[Row]) -> list[Row]:
    """The tests of a quick run that took far more than their budget."""
    factor = slowness(rows)
    return [
        row
        for row in rows
        if row.kind in ("unit", "integration")
        and row.cost.cpu_seconds / factor > 2 * _budget(row) + SECONDS_OF_OTHERS
    ]


def measured_again(names: list[str], costs: Path) -> list[Row]:
    """The costs of some tests in the second of two runs in one process."""
    options = ["-p", "no:randomly", "-p", "no:cacheprovider", "--quiet", f"--costs={costs}"]
    twice = f"import pytest; [pytest.main({[*options, *names]}) for _ in range(2)]"
    run = subprocess.run(
        [sys.executable, "-c", twice], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert costs.exists(), f"no test could be measured again: {run.stdout}{run.stderr}"
    return read_costs(costs)


def _budget(row: Row) -> float:
    seconds: float = BUDGET["stories"].get(row.name.partition("[")[0], BUDGET["cpu_seconds"][row.kind])
    return seconds


def _told(row: Row) -> str:
    took = f"{row.cost.cpu_seconds:.2f} s of CPU of {_budget(row)} s"
    return f"{row.name} took {took}: make it cheaper, or mark it thorough"


@pytest.mark.thorough  # after the quick run
def test_a_quick_test_keeps_its_budget(tmp_path: Path) -> None:
    if not LAST_QUICK_RUN.exists():
        skip_or_fail(f"{LAST_QUICK_RUN} is not there: `make test` writes it")
    suspects = too_expensive(read_costs(LAST_QUICK_RUN))
    assert len(suspects) <= SUSPECTS_MAX, "\n".join(map(_told, suspects))
    if suspects:
        measured = measured_again([row.name for row in suspects], tmp_path / "costs.tsv")
        assert not (found := too_expensive(measured)), "\n".join(map(_told, found))


@pytest.mark.thorough
def test_the_quick_run_keeps_its_budget() -> None:
    if not LAST_QUICK_RUN.exists():
        skip_or_fail(f"{LAST_QUICK_RUN} is not there: `make test` writes it")
    rows = read_costs(LAST_QUICK_RUN)
    took = sum(row.cost.cpu_seconds for row in rows) / slowness(rows)
    assert took <= BUDGET["cpu_seconds"]["all"] * 1.25, f"the last `make test` took {took:.0f} s of CPU"


def test_an_option_of_ours_is_one_word_with_its_value() -> None:
    """A file that exists would be taken for one of tests. What knows the option, tests/conftest.py, is unread then."""
    assert "--costs=" in (makefile := Path(CHECKOUT, "Makefile").read_text())
    assert "--costs " not in makefile


def test_a_story_is_a_test() -> None:
    for name in BUDGET["stories"]:
        file, _, function = name.partition("::")
        assert f"def {function}(" in Path(CHECKOUT, file).read_text(), f"{name} is no test"


def test_an_expensive_test_is_found() -> None:
    rows = [
        Row("tests/storage/test_x.py::test_small[1]", "unit", Cost(0.9, 1)),
        Row("tests/storage/test_x.py::test_large[1]", "unit", Cost(1.1, 1)),
        Row("tests/storage/test_x.py::test_thorough", "thorough", Cost(60, 1)),
        Row("tests/storage/test_x.py::test_with_a_broker", "integration", Cost(3.9, 1)),
    ]
    assert [one.name for one in too_expensive(rows)] == ["tests/storage/test_x.py::test_large[1]"]
    assert _told(rows[1]).startswith("tests/storage/test_x.py::test_large[1] took 1.10 s of CPU of 0.25 s: ")


@pytest.mark.thorough
def test_what_a_first_test_finds_unloaded_is_not_its_cost(tmp_path: Path) -> None:
    name = "tests/wire/protocol/test_headers.py::test_flexible_versions_are_those_of_the_schemas"
    (row,) = [row for row in measured_again([name], tmp_path / "costs.tsv") if row.kind == "unit"]
    assert row.name == name
    assert too_expensive([row]) == []


@pytest.mark.parametrize("slow", [1, 3])
def test_a_slow_machine_has_more_seconds(slow: int) -> None:
    yardstick = Row("yardstick:tests/storage/test_x.py", "yardstick", Cost(0.0011 * slow, 0))
    rows = [yardstick, Row("tests/storage/test_x.py::test_one", "unit", Cost(1.1, 1))]
    assert bool(too_expensive(rows)) == (slow == 1)
