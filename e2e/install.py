"""What tests do with Helm after the README's blocks have installed both charts (`pages.py`)."""

from __future__ import annotations

import json
import shlex
import subprocess

from e2e.boot import CHECKOUT, registry
from e2e.kube import Kube
from e2e.pages import kubernetes_blocks

OPERATOR_RELEASE, OPERATOR_NAMESPACE = "odradek-operator", "odradek-system"
RELEASE, NAMESPACE = "demo", "demo"
BOOTSTRAP = "demo-bootstrap:9092"
# Where manifests/operator/one-namespace.yaml installs.
WITHOUT_HELM = "odradek"
_KINDS = "clusters.odradek.io,topics.odradek.io,consumergroups.odradek.io,users.odradek.io,mirrors.odradek.io"
_OPERATOR_CHART, _CLUSTER_CHART = "helm/odradek-operator", "helm/odradek"


class HelmError(Exception):
    """Helm refused; the text is what it said."""


def install_cluster() -> None:
    """The README's command for a cluster, again; it returns when the resources are made."""
    text = "".join(block.text for block in kubernetes_blocks("README.md")).replace("\\\n", " ")
    (command,) = [line for line in text.splitlines() if line.startswith(f"helm install {RELEASE} ")]
    helm(*shlex.split(command)[1:])


def upgrade_operator(*more: str) -> None:
    """A new revision of the operator's release."""
    where = ["--namespace", OPERATOR_NAMESPACE, "--reuse-values", "--wait", "--timeout", "3m"]
    helm("upgrade", OPERATOR_RELEASE, _OPERATOR_CHART, *where, *more)


def upgrade_cluster(*more: str) -> None:
    """A new revision of the cluster's release; what was set before stays."""
    helm("upgrade", RELEASE, _CLUSTER_CHART, "--namespace", NAMESPACE, "--reuse-values", *more)


def uninstall(release: str, namespace: str) -> None:
    """Take a release away; returns when Helm has deleted what it made."""
    helm("uninstall", release, "--namespace", namespace, "--ignore-not-found", "--wait", "--timeout", "3m")


def clear(kube: Kube) -> None:
    """Take everything of Odradek away: releases, resources with their definitions, namespaces."""
    uninstall(RELEASE, NAMESPACE)
    if "clusters.odradek.io" in kube.run("get", "crd", "-o", "name"):
        # While there is an operator, so that nothing waits for it.
        found = json.loads(kube.run("get", _KINDS, "--all-namespaces", "-o", "json"))["items"]
        for namespace in sorted({one["metadata"]["namespace"] for one in found}):
            Kube(namespace).run("delete", _KINDS, "--all", "--wait=false")
    uninstall(OPERATOR_RELEASE, OPERATOR_NAMESPACE)
    kube.delete("namespace", NAMESPACE, OPERATOR_NAMESPACE, WITHOUT_HELM)
    kube.delete("clusterrole", "--selector=app.kubernetes.io/name=odradek-operator")
    kube.delete("clusterrolebinding", "--selector=app.kubernetes.io/name=odradek-operator")
    kube.delete(
        "crd", *(f"{one}.odradek.io" for one in ("clusters", "topics", "consumergroups", "users", "mirrors"))
    )


def helm_test() -> str:
    """Return the output of the chart's own test. Its pod stays only when it failed, so logs cannot be asked for."""
    return helm("test", RELEASE, "--namespace", NAMESPACE, "--timeout", "3m")


def helm(*arguments: str) -> str:
    """Return what a command of Helm prints. Raises HelmError."""
    if registry() and arguments[0] in ("install", "upgrade"):
        arguments = (*arguments, "--set", f"global.imageRegistry={registry()}")
    done = subprocess.run(
        ["helm", *arguments], capture_output=True, text=True, timeout=300, check=False, cwd=CHECKOUT
    )
    if done.returncode != 0:
        raise HelmError(f"helm {' '.join(arguments)}: {done.stderr.strip()}\n{done.stdout[-2000:]}")
    return done.stdout
