"""Runs of pytest in the clone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

# Its tests look at the table, and fail with each bug that is planted.
LEFT_OUT: Final = "tests/testing/test_planted.py"
SUITES: Final = {"quick": "not thorough", "thorough": "thorough"}
# A bug may make a test wait for ever. The thorough suite has tests that take minutes.
_TEST_SECONDS_MAX: Final = {"quick": 120, "thorough": 600}
# Where a run has a bound, so many tests may wait until their own.
_WAITING_TESTS_MAX: Final = 30
_PASSED, _NOTHING_RAN = 0, 5


class Outcome(NamedTuple):
    """The tests that failed and that passed, each once and in the order of their ends."""

    failed: list[str]
    passed: list[str]
    seconds: float
    is_cut: bool = False
    """Tests are left that did not run."""


def run(
    folder: Path,
    tests: Sequence[str],
    *,
    suite: str,
    jobs: int = 0,
    failures_max: int = 0,
    seconds_max: float | None = None,
    deselected: Collection[str] = (),
) -> Outcome:
    """Run tests, until `failures_max` have failed or `seconds_max` have passed, when what failed before counts.

    A run that ends in another way counts as a failure of all.
    """
    outcomes = folder / ".pytest-outcomes"
    outcomes.unlink(missing_ok=True)
    environment = {**os.environ, "OUTCOMES": str(outcomes)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if suite == "thorough":
        environment["ODRADEK_TESTS"] = "thorough"
    test_seconds_max: float = _TEST_SECONDS_MAX[suite]
    if seconds_max is not None:
        test_seconds_max = min(test_seconds_max, max(1, seconds_max / _WAITING_TESTS_MAX))
    options = [
        *("-q", "--no-header", "--tb=no", "-p", "tests.planted.outcomes", "-p", "no:randomly"),
        *("-m", SUITES[suite], f"--timeout={test_seconds_max:.0f}", "--costs=.pytest-costs"),
        f"--ignore={LEFT_OUT}",
        *(f"--deselect={test}" for test in deselected),
        *((f"--maxfail={failures_max}",) if failures_max else ()),
        *(("-n", str(jobs), "--dist=loadfile", "--no-loadscope-reorder") if jobs else ()),
    ]
    began = time.monotonic()
    with subprocess.Popen(
        [folder / ".venv/bin/python", "-m", "pytest", *options, *tests],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        is_late = False
        try:
            printed, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        if is_late:
            printed, _ = process.communicate()
    rows = [line.split("\t", 1) for line in outcomes.read_text().splitlines()] if outcomes.exists() else []
    failed = list(dict.fromkeys(name for outcome, name in rows if outcome == "failed"))
    if not is_late and not failed and process.returncode not in (_PASSED, _NOTHING_RAN):
        print(f"pytest ended with {process.returncode}:\n{printed[-4000:]}", flush=True)
        failed = list(tests)
    passed = list(dict.fromkeys(name for outcome, name in rows if outcome == "passed"))
    is_cut = is_late or 0 < failures_max <= len(failed)
    return Outcome(failed, passed, time.monotonic() - began, is_cut)
