"""Builds what a release uploads: an sdist and a wheel of each distribution, and the charts.

A wheel is built from its sdist, so that an sdist which lacks something fails here. The time in every archive is the
commit's (SOURCE_DATE_EPOCH): the same commit gives the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from release.commands import git, run
from release.distributions import DISTRIBUTIONS


def commit_time(checkout: Path) -> str:
    """When HEAD was committed, in seconds since 1970."""
    return git(checkout, "log", "-1", "--format=%ct")


def packages(checkout: Path, target: Path, *, isolated: bool = True) -> list[Path]:
    """Six files in `target`, sorted. Raises ReleaseError.

    `isolated` fetches the build backend for each build; without it the backend of this environment is used.
    """
    target.mkdir(parents=True, exist_ok=True)
    # What is released needs a version of `odradek`, not this checkout (pipeline/pipeline_requirements.py).
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit_time(checkout), "ODRADEK_RELEASE": "1"}
    for distribution in DISTRIBUTIONS:
        command = [sys.executable, "-m", "build", "--outdir", str(target)]
        command += [] if isolated else ["--no-isolation"]
        run([*command, str(checkout / distribution.folder)], folder=checkout, environment=environment)
    return sorted(path for path in target.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def charts(checkout: Path, target: Path) -> list[Path]:
    """The charts' packages in `target`; none where Helm is not installed. Raises ReleaseError."""
    helm = shutil.which("helm")
    if helm is None:
        return []
    target.mkdir(parents=True, exist_ok=True)
    for chart in sorted(path.parent for path in checkout.glob("helm/*/Chart.yaml")):
        run([helm, "lint", "--strict", str(chart)], folder=checkout)
        run([helm, "package", "--destination", str(target), str(chart)], folder=checkout)
    return sorted(target.glob("*.tgz"))


def differences(one: list[Path], other: list[Path]) -> list[str]:
    """Files of two builds that are not the same bytes, or that only one build has."""
    first, second = ({path.name: digest(path) for path in paths} for paths in (one, other))
    return [
        f"{name} is not built alike twice from one commit"
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]


def digest(path: Path) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
