"""A part of a measurement in a process of its own, so that no other's memory and garbage are in its way."""

from __future__ import annotations

import os
import subprocess
import sys


def run_module(module: str, *arguments: str, seconds_max: float) -> str:
    """Run `python -m MODULE ARGUMENTS`. Returns the last line that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds_max,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, f"{module} {' '.join(arguments)}: {done.stderr[-4000:]}"
    return done.stdout.splitlines()[-1]
