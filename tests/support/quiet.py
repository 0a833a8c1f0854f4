"""Of two suites that run beside one another, one test at a time bounds the time that its clients wait.

Such a test is marked `quiet`. `.ci/run` starts e2e beside the other tests, which are a control group there.
ODRADEK_E2E_BESIDE names the file with the group's weight, `cpu.shares` or `cpu.weight`. A quiet test of e2e lowers it,
and one of the group has the whole of it. Without that variable nothing waits and nothing is written.

`tests/conftest.py` and `e2e/conftest.py` name this module in `pytest_plugins`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

CHECKOUT: Final = Path(__file__).parents[2]
# Those of a new group.
WHOLE_WEIGHTS: Final = {"cpu.shares": 1024, "cpu.weight": 100}
# A fifth of what others have. With less, a busy installation leaves a test no second of CPU within its time limit.
WEIGHTS_BESIDE_QUIET_TESTS: Final = {"cpu.shares": 200, "cpu.weight": 20}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the other suite's quiet test. It comes before pytest-timeout, so no test's limit counts the wait."""
    beside = os.environ.get("ODRADEK_E2E_BESIDE")
    if beside is None or item.get_closest_marker("quiet") is None:
        return (yield)
    is_in_e2e = item.path.is_relative_to(CHECKOUT / "e2e")
    with take_turn(CHECKOUT / ".cache"), _weigh(Path(beside), whole=not is_in_e2e):
        return (yield)


@contextlib.contextmanager
def take_turn(folder: Path) -> Iterator[None]:
    """Hold a turn that one process has at a time; one that waits for it gets it before the one that had it last."""
    with (folder / "quiet-next").open("w") as following, (folder / "quiet-turn").open("w") as turn:
        fcntl.flock(following, fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(following, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def _weigh(weight: Path, *, whole: bool) -> Iterator[None]:
    """Give the group its weight for a test. What e2e lowers stays so, since its next test is likely a quiet one."""
    before = weight.read_text()
    weight.write_text(str((WHOLE_WEIGHTS if whole else WEIGHTS_BESIDE_QUIET_TESTS)[weight.name]))
    yield
    if whole:
        weight.write_text(before)
