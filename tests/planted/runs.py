"""Runs of pytest in the clone."""

from __future__ import annotations

import os
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
_PASSED, _NOTHING_RAN = 0, 5


class Outcome(NamedTuple):
    """The tests that failed and that passed, each once and in the order of their ends."""

    failed: list[str]
    passed: list[str]
    seconds: float


def run(
    folder: Path,
    tests: Sequence[str],
    *,
    suite: str,
    jobs: int = 0,
    failures_max: int = 0,
    deselected: Collection[str] = (),
) -> Outcome:
    """Run tests, until `failures_max` have failed. A run that ends in another way counts as a failure of all."""
    outcomes = folder / ".pytest-outcomes"
    outcomes.unlink(missing_ok=True)
    environment = {**os.environ, "OUTCOMES": str(outcomes)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if suite == "thorough":
        environment["ODRADEK_TESTS"] = "thorough"
    options = [
        *("-q", "--no-header", "--tb=no", "-p", "tests.planted.outcomes", "-p", "no:randomly"),
        *("-m", SUITES[suite], f"--timeout={_TEST_SECONDS_MAX[suite]}", "--costs=.pytest-costs"),
        f"--ignore={LEFT_OUT}",
        *(f"--deselect={test}" for test in deselected),
        *((f"--maxfail={failures_max}",) if failures_max else ()),
        *(("-n", str(jobs), "--dist=loadfile", "--no-loadscope-reorder") if jobs else ()),
    ]
    began = time.monotonic()
    ended = subprocess.run(
        [folder / ".venv/bin/python", "-m", "pytest", *options, *tests],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    rows = [line.split("\t", 1) for line in outcomes.read_text().splitlines()] if outcomes.exists() else []
    failed = list(dict.fromkeys(name for outcome, name in rows if outcome == "failed"))
    if not failed and ended.returncode not in (_PASSED, _NOTHING_RAN):
        print(
            f"pytest ended with {ended.returncode}:\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}", flush=True
        )
        failed = list(tests)
    passed = list(dict.fromkeys(name for outcome, name in rows if outcome == "passed"))
    return Outcome(failed, passed, time.monotonic() - began)
