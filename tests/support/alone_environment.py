"""A virtual environment that has one distribution of ours and what it declares to need, and nothing else of the tests'.

Dependencies are links to the files that the tests' own environment has of them, so nothing is fetched. A package that
the code imports and does not declare is missing here, as it is for a user.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.page_folder import REPOSITORY

_FOLDERS = {"odradek": ".", "odradek-operator": "operator", "odradek-pipeline": "pipeline"}


def make_environment(folder: Path, distribution: str) -> Path:
    """`folder`, a virtual environment with this distribution and, where it needs it, the `odradek` of this checkout."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    wanted = [distribution] if distribution == "odradek" else ["odradek", distribution]
    wheels = [_build_wheel(name, folder / "wheels") for name in wanted]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--disable-pip-version-check", *map(str, wheels)], check=True)
    ours = importlib.metadata.distributions(path=[str(site)])
    needs = [need for one in ours for need in one.requires or ()]
    for found in _needed(needs):
        _link(found, site)
    return folder


def _build_wheel(distribution: str, target: Path) -> Path:
    before = set(target.glob("*.whl"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target)]
    subprocess.run([*command, str(REPOSITORY / _FOLDERS[distribution])], check=True, capture_output=True)
    (made,) = set(target.glob("*.whl")) - before
    return made


def _needed(requirements: Iterable[str]) -> Iterator[importlib.metadata.Distribution]:
    """Each distribution of others that these need, and that those need, once."""
    seen = {canonicalize_name(name) for name in _FOLDERS}
    waiting = list(requirements)
    while waiting:
        need = Requirement(waiting.pop())
        name = canonicalize_name(need.name)
        if name in seen or (need.marker is not None and not need.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        found = importlib.metadata.distribution(need.name)
        waiting.extend(found.requires or ())
        yield found


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """File by file: distributions share namespace packages. Programs name the interpreter of the other environment."""
    for file in distribution.files or ():
        if file.parts[0] != ".." and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():  # some distributions bring a README.md of the same place
                target.symlink_to(Path(str(file.locate())))
