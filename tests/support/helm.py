"""Helm for tests, and charts rendered with it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helm.generate.yaml_text import read_documents
from tests.support.programs import require_program

CHECKOUT = Path(__file__).resolve().parents[2]
CHARTS = CHECKOUT / "helm"
KUBERNETES = "1.34.0"


class HelmFailed(Exception):
    """Helm ended with an error; its text is what a user reads."""


def helm(*arguments: str) -> str:
    """What a helm command prints. Raises HelmFailed."""
    done = subprocess.run([require_program("helm"), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HelmFailed(done.stderr + done.stdout)
    return done.stdout


def template(
    chart: Path | str,
    *,
    values: Sequence[Path] = (),
    settings: Sequence[str] = (),
    release: str = "log",
    namespace: str = "data",
    show_only: Sequence[str] = (),
    kubernetes: str = KUBERNETES,
) -> str:
    """A chart's manifests as text. `settings` are as for --set; `chart` is a path, or a name below helm/."""
    folder = chart if isinstance(chart, Path) else CHARTS / chart
    arguments = ["template", release, str(folder), "--namespace", namespace, "--kube-version", kubernetes]
    for file in values:
        arguments += ["--values", str(file)]
    for setting in settings:
        arguments += ["--set", setting]
    for shown in show_only:
        arguments += ["--show-only", shown]
    return helm(*arguments)


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of rendered text."""
    return [found for found in read_documents(text) if found is not None]
