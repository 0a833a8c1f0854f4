"""No test of the quick run takes more of the processor than its budget: tests/budget.toml.

The costs are those of the last `make test`. A test that comes first pays for what others find loaded, another one for
the garbage of those before it. A busy machine takes longer. So a test fails here at twice its budget and half a second.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.support.costs import CHECKOUT, Cost, Row, read_costs, slowness
from tests.support.peers import skip_or_fail

SECONDS_OF_OTHERS = 0.5
LAST_QUICK_RUN = CHECKOUT / ".cache" / "costs-of-test.tsv"
BUDGET = tomllib.loads((CHECKOUT / "tests" / "budget.toml").read_text())


def too_expensive(rows: list[Row]) -> list[str]:
    """The tests of a quick run that took far more than their budget, each with both figures."""
    factor = slowness(rows)
    found = []
    for row in rows:
        if row.kind not in ("unit", "integration"):
            continue
        budget = BUDGET["stories"].get(row.name.partition("[")[0], BUDGET["cpu_seconds"][row.kind])
        took = row.cost.cpu_seconds / factor
        if took > 2 * budget + SECONDS_OF_OTHERS:
            found.append(
                f"{row.name} took {took:.2f} s of CPU of {budget} s: make it cheaper, or mark it thorough"
            )
    return found


@pytest.mark.thorough  # after the quick run
def test_a_quick_test_keeps_its_budget() -> None:
    if not LAST_QUICK_RUN.exists():
        skip_or_fail(f"{LAST_QUICK_RUN} is not there: `make test` writes it")
    assert not (found := too_expensive(read_costs(LAST_QUICK_RUN))), "\n".join(found)


@pytest.mark.thorough
def test_the_quick_run_keeps_its_budget() -> None:
    if not LAST_QUICK_RUN.exists():
        skip_or_fail(f"{LAST_QUICK_RUN} is not there: `make test` writes it")
    rows = read_costs(LAST_QUICK_RUN)
    took = sum(row.cost.cpu_seconds for row in rows) / slowness(rows)
    assert took <= BUDGET["cpu_seconds"]["all"] * 1.25, f"the last `make test` took {took:.0f} s of CPU"


def test_a_story_is_a_test() -> None:
    for name in BUDGET["stories"]:
        file, _, function = name.partition("::")
        assert f"def {function}(" in Path(CHECKOUT, file).read_text(), f"{name} is no test"


def test_an_expensive_test_is_found() -> None:
    rows = [
        Row("tests/log/test_x.py::test_small[1]", "unit", Cost(0.9, 1)),
        Row("tests/log/test_x.py::test_large[1]", "unit", Cost(1.1, 1)),
        Row("tests/log/test_x.py::test_thorough", "thorough", Cost(60, 1)),
        Row("tests/log/test_x.py::test_with_a_broker", "integration", Cost(3.9, 1)),
    ]
    assert [one.split()[0] for one in too_expensive(rows)] == ["tests/log/test_x.py::test_large[1]"]


@pytest.mark.parametrize("slow", [1, 3])
def test_a_slow_machine_has_more_seconds(slow: int) -> None:
    yardstick = Row("yardstick:tests/log/test_x.py", "yardstick", Cost(0.0011 * slow, 0))
    rows = [yardstick, Row("tests/log/test_x.py::test_one", "unit", Cost(1.1, 1))]
    assert bool(too_expensive(rows)) == (slow == 1)
