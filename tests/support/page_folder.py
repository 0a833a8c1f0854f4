"""The folder that a page's blocks run in: it looks like a clone of this repository whose `.venv` is set up."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# pytest would take some of them for the configuration of the page's own tests; the others the page makes itself.
_NOT_LINKED: Final = (".git", ".venv", "pyproject.toml", "tests", "data", "cluster")


def make_clone(folder: Path, environment: Path = Path(sys.prefix)) -> None:
    """Links to the files of this checkout, and `.venv`: the virtual environment `environment`."""
    folder.mkdir(parents=True)
    for entry in REPOSITORY.iterdir():
        if entry.name not in _NOT_LINKED and not entry.name.endswith("_cache"):
            (folder / entry.name).symlink_to(entry)
    (folder / ".venv").symlink_to(environment)


def make_programs(folder: Path) -> None:
    """`make` with an environment that is set up already: its targets run what the Makefile says, nothing else."""
    folder.mkdir()
    real = shutil.which("make") or "make"
    stamps = " ".join(f"-o .venv/{name}" for name in stamps_in(REPOSITORY / "Makefile"))
    (folder / "make").write_text(f'#!/bin/sh\nexec {real} {stamps} "$@"\n')
    (folder / "make").chmod(0o755)


def stamps_in(makefile: Path) -> list[str]:
    """The files by which the Makefile knows that `.venv` is set up, such as `.product`."""
    return re.findall(r"^\$\(VENV\)/(\.\w+):", makefile.read_text(), re.MULTILINE)
