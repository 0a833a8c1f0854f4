"""Prometheus' own programs: promtool, which checks rules and evaluates them on series, and Prometheus itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.programs import require_program


def promtool(*arguments: str | Path) -> str:
    """What it prints. AssertionError where it ends with a failure."""
    done = run_promtool(*arguments)
    # What it says of files that are right is a line each.
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.endswith("SUCCESS")]
    assert done.returncode == 0, "\n".join(line for line in said if line.strip())[-4000:]
    return done.stdout


def run_promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """One run to its end, however it ends."""
    command = [require_program("promtool"), *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def minutes_of(duration: str) -> int:
    """A duration of an alert, as 15m or 1h."""
    found = re.fullmatch(r"(\d+)([mh])", duration)
    assert found is not None, duration
    return int(found[1]) * (60 if found[2] == "h" else 1)
