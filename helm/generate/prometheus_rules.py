"""`manifests/monitoring/prometheus-rules.yaml`: the chart's alerts for a Prometheus without Kubernetes.

The alerts are those of helm/odradek/files/alerts.yaml, with the chart's default thresholds. A target is known by
`instance`, where a pod's name stands on Kubernetes. Left out are the alerts that only a cluster on ZooKeeper can raise:
a single broker has no other controller and no followers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from helm.generate.yaml_text import read_document

JOB: Final = "odradek"
PATH: Final = Path("manifests/monitoring/prometheus-rules.yaml")
# A single broker is its own controller and has no followers: these would never, or always, be raised.
_OF_CLUSTERS_ONLY: Final = frozenset({"OdradekNoActiveController"})
# What helps on Kubernetes and makes no sense elsewhere, with what takes its place.
_IN_PLAIN_WORDS: Final = (
    (r"; a broker's pod and volume are replaced by annotating the pod with odradek.io/replace=true", ""),
    (r"Grow the Cluster's storage", "Grow the file system"),
    (r"For an objective of its own, declare a ConsumerGroup with a lag objective\.", ""),
    (r"A ConsumerGroup with `scaling` adds members by itself\.", ""),
    (r"the node's container runtime", "the process"),
    (r"controllers' and ZooKeeper's pods and logs", "controllers' and ZooKeeper's logs"),
)
_HEAD: Final = f"""\
# Alerts on brokers that a Prometheus scrapes as the job `{JOB}`, without Kubernetes. Name this file under `rule_files`.
# Made from helm/odradek/files/alerts.yaml by `make reference`; edits here are lost.
"""


def rules(checkout: Path) -> str:
    """The text of the file. Raises ValueError where an alert names a threshold that the chart does not have."""
    runbooks = _runbooks(checkout)
    alerts = [
        _without_pods(alert, runbooks)
        for alert in filled_in(checkout, "odradek", f'job="{JOB}"')
        if alert["alert"] not in _OF_CLUSTERS_ONLY
    ]
    document = {"groups": [{"name": JOB, "rules": alerts}]}
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)


def filled_in(checkout: Path, chart: str, selector: str) -> list[dict[str, Any]]:
    """A chart's alerts with its default thresholds. Raises ValueError as `rules`."""
    folder = checkout / "helm" / chart
    values = read_document((folder / "values.yaml").read_text())
    settings = (values.get("monitoring") or values["metrics"])["prometheusRule"]
    text = (folder / "files" / "alerts.yaml").read_text().replace("<selector>", selector)
    for name, value in {**settings, **settings.get("thresholds", {})}.items():
        text = text.replace(f"<{name}>", str(value))
    alerts: list[dict[str, Any]] = read_document(text)
    for alert in alerts:
        if left := re.findall(r"<\w+>", f"{alert['expr']} {alert.get('for', '')}"):
            raise ValueError(f"{alert['alert']} names {left[0]}, which is not a threshold of the chart")
    return alerts


def _runbooks(checkout: Path) -> str:
    """The prefix of the runbooks' addresses in this release; empty where the project declares no address."""
    chart = read_document((checkout / "helm" / "odradek" / "Chart.yaml").read_text())
    home = chart.get("home", "").rstrip("/")
    return f"{home}/blob/v{chart['appVersion']}/docs/runbooks/" if home else ""


def _without_pods(alert: dict[str, Any], runbooks: str) -> dict[str, Any]:
    annotations = {name: _plain(text) for name, text in alert["annotations"].items()}
    if runbooks:
        annotations["runbook_url"] = f"{runbooks}{alert['alert']}.md"
    expression = re.sub(r"\bpod\b", "instance", alert["expr"])
    return {**alert, "expr": expression, "annotations": annotations}


def _plain(text: str) -> str:
    for pattern, instead in _IN_PLAIN_WORDS:
        text = re.sub(pattern, instead, text)
    return text.replace("$labels.pod", "$labels.instance").strip()
