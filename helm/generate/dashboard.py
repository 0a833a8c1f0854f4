"""The Grafana dashboard of a cluster, as `files/dashboard.json` of the chart `odradek`.

What is drawn is in `panels.yaml`. Positions, ids and the many fields that Grafana wants are added here, so that a
panel is moved by moving its lines. `odradek_cluster` is the label that the chart's PodMonitor adds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helm.generate.yaml_text import read_document

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24
_SELECTOR = 'namespace="$namespace", odradek_cluster="$cluster"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what panels.yaml says of it."""

    title: str
    unit: str
    drawn: dict[str, str]
    doc: str = ""
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    bad_above: float | None = None
    bad_below: float | None = None


def rows() -> dict[str, list[Panel]]:
    """The panels of panels.yaml, by the title of their row."""
    read = read_document((Path(__file__).parent / "panels.yaml").read_text())
    return {title: [Panel(**panel) for panel in panels] for title, panels in read.items()}


def dashboard() -> str:
    """The text of dashboard.json."""
    written = {
        "uid": "odradek-cluster",
        "title": "Odradek",
        "description": "Brokers, controllers and consumer groups of an Odradek cluster.",
        "tags": ["odradek"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {"list": list(_variables())},
    }
    # A panel a line: short enough to be looked at, and a change shows as the panel's own.
    head = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in written.items()]
    panels = ",\n".join(f"  {json.dumps(panel)}" for panel in _panels())
    return "\n".join(["{", *head, ' "panels": [', panels, " ]", "}"]) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, label, query in (
        ("namespace", "Namespace", "label_values(odradek_build_info, namespace)"),
        ("cluster", "Cluster", 'label_values(odradek_build_info{namespace="$namespace"}, odradek_cluster)'),
    ):
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
        }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for title, panels in rows().items():
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
        }
        number, top, left = number + 1, top + 1, 0
        height = 4 if panels[0].kind == "stat" else 8
        for panel in panels:
            if left + panel.width > _WIDTH:
                left, top = 0, top + height
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            yield {"id": number, "gridPos": place, **_drawn(panel)}
            number, left = number + 1, left + panel.width
        top += height


def _drawn(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "stat":
        options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none"}
        defaults |= {"noValue": "none", "color": {"mode": "thresholds"}, "thresholds": _thresholds(panel)}
    else:
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
        stacking = {"mode": "normal" if panel.stacked else "none"}
        defaults["custom"] = {
            "fillOpacity": 25 if panel.stacked else 5,
            "stacking": stacking,
            "showPoints": "never",
        }
    targets = [
        {
            "refId": chr(ord("A") + at),
            "datasource": _SOURCE,
            "expr": expression.replace("<selector>", _SELECTOR).replace("<span>", "$__rate_interval"),
            "legendFormat": legend or "__auto",
        }
        for at, (legend, expression) in enumerate(panel.drawn.items())
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.doc,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": targets,
    }


def _thresholds(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    return {"mode": "absolute", "steps": steps}
