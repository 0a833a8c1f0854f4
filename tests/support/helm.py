"""Helm for tests: the binary that is there, or one that Go builds once; and charts rendered with it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.peers import skip_or_fail

MODULE = "helm.sh/helm/v3/cmd/helm@v3.22.0"
CHECKOUT = Path(__file__).resolve().parents[2]
CHARTS = CHECKOUT / "helm"
KUBERNETES = "1.34.0"
_BUILT = CHECKOUT / ".cache" / "helm"
_OF_THE_CLUSTER = Path(os.environ.get("CLUSTER_CACHE", Path.home() / ".cache" / "cluster")) / "bin" / "helm"


class HelmFailed(Exception):
    """Helm ended with an error; its text is what a user reads."""


@functools.cache
def binary() -> str:
    """Path of Helm. Without any, and without Go to build it, the test is skipped; in CI it fails."""
    found = shutil.which("helm") or next(
        (str(path) for path in (_OF_THE_CLUSTER, _BUILT / "helm") if os.access(path, os.X_OK)), None
    )
    if found is not None:
        return found
    if shutil.which("go") is None:
        skip_or_fail("neither Helm nor Go to build it is installed")
    environment = {
        **os.environ,
        "GOBIN": str(_BUILT),
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -trimpath",
    }
    _BUILT.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        ["go", "install", "-ldflags", "-s -w", MODULE],
        cwd=_BUILT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        skip_or_fail(f"Helm could not be built: {built.stderr[-2000:]}")
    return str(_BUILT / "helm")


def helm(*arguments: str) -> str:
    """What a helm command prints. Raises HelmFailed."""
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, check=False)
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
    return [found for found in yaml.safe_load_all(text) if found is not None]
