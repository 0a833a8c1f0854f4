"""`manifests/`, rendered by Helm from the charts: for people who apply plain YAML.

What only Helm understands is taken out: its labels, its hooks. Names and the namespace are fixed, because nothing fills
them in. The operator is `odradek-operator`, in the namespace `odradek-system` as docs/kubernetes.md has it. The one for
one namespace is in `odradek`, beside the cluster `log` that it looks after.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

NAMESPACE, SYSTEM_NAMESPACE = "odradek", "odradek-system"
KUBERNETES = "1.34.0"
_NAMESPACE_TEXT = "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {}\n"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One file below manifests/: a chart with values, and of it the templates that are named, or all."""

    path: str
    says: str
    chart: str
    release: str
    settings: tuple[str, ...]
    only: tuple[str, ...] = ()
    namespace: str = NAMESPACE
    with_namespace: bool = False


_OPERATOR = ("crds.install=false",)
_WATCHED = ("cluster.create=false", "cluster.name=log")

MANIFESTS = (
    Manifest(
        "operator/one-namespace.yaml",
        f"The operator, for resources in its own namespace, {NAMESPACE}. Apply manifests/crds/ first.",
        "odradek-operator",
        "odradek-operator",
        (*_OPERATOR, "rbac.aggregate=false"),
        with_namespace=True,
    ),
    Manifest(
        "operator/all-namespaces.yaml",
        "The operator, for resources in every namespace. Apply manifests/crds/ first.",
        "odradek-operator",
        "odradek-operator",
        (*_OPERATOR, "watch.allNamespaces=true"),
        namespace=SYSTEM_NAMESPACE,
        with_namespace=True,
    ),
    Manifest(
        "monitoring/operator.yaml",
        "Scraping of the operator and alerts on it, for the Prometheus operator.",
        "odradek-operator",
        "odradek-operator",
        (*_OPERATOR, "metrics.podMonitor.enabled=true", "metrics.prometheusRule.enabled=true"),
        ("templates/podmonitor.yaml", "templates/prometheusrule.yaml"),
        namespace=SYSTEM_NAMESPACE,
    ),
    Manifest(
        "monitoring/cluster.yaml",
        f"Scraping of the Cluster log in the namespace {NAMESPACE} and alerts on it, for the Prometheus operator.",
        "odradek",
        "log",
        (*_WATCHED, "monitoring.podMonitor.enabled=true", "monitoring.prometheusRule.enabled=true"),
        ("templates/podmonitor.yaml", "templates/prometheusrule.yaml"),
    ),
    Manifest(
        "monitoring/dashboard.yaml",
        "Grafana's dashboards, as a ConfigMap that its sidecar finds.",
        "odradek",
        "log",
        (*_WATCHED, "monitoring.dashboard.enabled=true"),
        ("templates/dashboard.yaml",),
    ),
    Manifest(
        "monitoring/operator-dashboard.yaml",
        "Grafana's dashboard of the operator, as a ConfigMap that its sidecar finds.",
        "odradek-operator",
        "odradek-operator",
        (*_OPERATOR, "metrics.dashboard.enabled=true"),
        ("templates/dashboard.yaml",),
        namespace=SYSTEM_NAMESPACE,
    ),
)


def files(checkout: Path, *, helm: str = "helm") -> dict[Path, str]:
    """Every rendered file with its text. Raises FileNotFoundError without Helm, CalledProcessError when it fails."""
    return {
        checkout / "manifests" / manifest.path: _text(checkout, manifest, helm=helm) for manifest in MANIFESTS
    }


def _text(checkout: Path, manifest: Manifest, *, helm: str) -> str:
    command = [helm, "template", manifest.release, str(checkout / "helm" / manifest.chart)]
    command += ["--namespace", manifest.namespace, "--kube-version", KUBERNETES, "--no-hooks"]
    for setting in manifest.settings:
        command += ["--set", setting]
    for path in manifest.only:
        command += ["--show-only", path]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    plain = re.sub(
        r"^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n",
        _unless_the_operators,
        rendered,
        flags=re.M,
    )
    plain = re.sub(r"^# Source: .*\n", "", plain, flags=re.M)
    head = f"# {manifest.says}\n# Rendered from helm/{manifest.chart} by `make manifests`; edits here are lost.\n"
    return head + (_NAMESPACE_TEXT.format(manifest.namespace) if manifest.with_namespace else "") + plain


def _unless_the_operators(line: re.Match[str]) -> str:
    """What the operator makes is managed by it, and selectors ask for that; Helm manages nothing here."""
    return line[0] if line[0].rstrip().endswith("odradek-operator") else ""
