"""How the steps of a release run other programs, and the error by which a step stops the release."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_SAID_CHARACTERS_MAX = 3000


class ReleaseError(Exception):
    """A step failed, so the release stops. The text says which step and why."""


def run(command: Sequence[str], *, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return what a program prints. Raises ReleaseError with the end of what it said when it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()[-_SAID_CHARACTERS_MAX:]
        raise ReleaseError(f"{' '.join(command)} failed:\n{said}")
    return done.stdout


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints, without the last line break. Raises ReleaseError."""
    return run(["git", *arguments], folder=folder).strip()
