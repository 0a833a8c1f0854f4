"""What pytest does otherwise here: it runs tests that await, and shows with each failure what plays it again.

`tests/conftest.py` names this module in `pytest_plugins`.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Generator
from typing import Final

import pytest

from tests.support import loop

FILES_NAMED_MAX: Final = 20

_files_run: pytest.StashKey[dict[str, None]] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function on virtual time; see `tests.support.stories`."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asked = inspect.signature(pyfuncitem.obj).parameters
    loop.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in asked}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the commands that play a failure again to its report.

    They stand beside what the failure says itself: the blob of Hypothesis, the seed of a simulation or of chaos.
    """
    files = item.config.stash.setdefault(_files_run, {})
    files.setdefault(item.nodeid.partition("::")[0])
    report = yield
    if report.failed:
        report.sections.append(("To play it again", commands_of(item, list(files))))
    return report


def commands_of(item: pytest.Item, files: list[str]) -> str:
    """The test alone, and after all that its process ran before it: a seed keeps the order of any files."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in os.environ.items() if _decides(name)]
    seed = item.config.getoption("randomly_seed", None)
    order = "-p no:randomly" if seed is None else f"--randomly-seed={seed}"
    begin = " ".join([*variables, ".venv/bin/python -m pytest", order])
    named = files[-FILES_NAMED_MAX:]
    left_out = len(files) - len(named)
    before = f"# after {left_out} more files before these\n" if left_out else ""
    return f"{begin} {shlex.quote(item.nodeid)}\n{before}{begin} {' '.join(map(shlex.quote, named))}"


def _decides(variable: str) -> bool:
    """Whether tests choose something by this variable of the environment."""
    return variable.startswith("ODRADEK_") or variable.endswith(("SEED", "SEEDS"))
