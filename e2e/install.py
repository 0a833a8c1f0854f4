"""What tests do with Helm after the README's blocks have installed both charts (`pages.py`)."""

from __future__ import annotations

import shlex
import subprocess

from e2e.boot import CHECKOUT, registry
from e2e.pages import kubernetes_blocks

OPERATOR_RELEASE, OPERATOR_NAMESPACE = "odradek-operator", "odradek-system"
RELEASE, NAMESPACE = "demo", "demo"
BOOTSTRAP = "demo-bootstrap:9092"
_OPERATOR_CHART, _CLUSTER_CHART = "helm/odradek-operator", "helm/odradek"


class HelmError(Exception):
    """Helm refused; the text is what it said."""


def install_cluster() -> None:
    """The README's command for a cluster, again; it returns when the resources are made."""
    text = "".join(block.text for block in kubernetes_blocks("README.md")).replace("\\\n", " ")
    (command,) = [line for line in text.splitlines() if line.startswith(f"helm install {RELEASE} ")]
    _helm(*shlex.split(command)[1:])


def upgrade_operator(*more: str) -> None:
    """A new revision of the operator's release."""
    where = ["--namespace", OPERATOR_NAMESPACE, "--reuse-values", "--wait", "--timeout", "3m"]
    _helm("upgrade", OPERATOR_RELEASE, _OPERATOR_CHART, *where, *more)


def upgrade_cluster(*more: str) -> None:
    """A new revision of the cluster's release; what was set before stays."""
    _helm("upgrade", RELEASE, _CLUSTER_CHART, "--namespace", NAMESPACE, "--reuse-values", *more)


def uninstall(release: str, namespace: str) -> None:
    """Take a release away; returns when Helm has deleted what it made."""
    _helm("uninstall", release, "--namespace", namespace, "--ignore-not-found", "--wait", "--timeout", "3m")


def helm_test() -> str:
    """What the chart's own test says. Its pod stays only when it failed, so logs cannot be asked for."""
    return _helm("test", RELEASE, "--namespace", NAMESPACE, "--timeout", "3m")


def _helm(*arguments: str) -> str:
    if registry() and arguments[0] in ("install", "upgrade"):
        arguments = (*arguments, "--set", f"global.imageRegistry={registry()}")
    done = subprocess.run(
        ["helm", *arguments], capture_output=True, text=True, timeout=300, check=False, cwd=CHECKOUT
    )
    if done.returncode != 0:
        raise HelmError(f"helm {' '.join(arguments)}: {done.stderr.strip()}\n{done.stdout[-2000:]}")
    return done.stdout
