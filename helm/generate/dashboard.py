"""The Grafana dashboards, as `files/dashboards/*.json` of the charts.

What is drawn is in `panels/*.yaml`, a file for each dashboard: panels by the title of their row. Positions, ids and the
many fields that Grafana wants are added here, so that a panel is moved by moving its lines.

`drawn` has expressions by legend. <selector> is the file's `selector`, <span> Grafana's interval for rates. A panel of
`kind: stat` is one number: red above `bad_above` or below `bad_below`, else green. `variables` are what a reader
chooses, each by a query that may use those before it. `odradek_cluster` is the label that the chart's PodMonitor adds.
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
# A menu of the other dashboards, which keeps what was chosen.
_LINKS = {
    "type": "dashboards",
    "title": "Odradek",
    "tags": ["odradek"],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
}
_PANELS = Path(__file__).parent / "panels"
# The chart that each is in; all others describe what the chart `odradek` makes.
_CHARTS = {"operator": "odradek-operator"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what its file says of it."""

    title: str
    unit: str
    drawn: dict[str, str]
    doc: str = ""
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    bad_above: float | None = None
    bad_below: float | None = None


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard: what its file says of it."""

    uid: str
    title: str
    doc: str
    selector: str
    variables: dict[str, dict[str, str]]
    rows: dict[str, list[Panel]]


def read_dashboards() -> dict[str, Dashboard]:
    """All dashboards by the names of their files."""
    return {path.stem: _read(path) for path in sorted(_PANELS.glob("*.yaml"))}


def _read(path: Path) -> Dashboard:
    read = read_document(path.read_text())
    rows = {title: [Panel(**panel) for panel in panels] for title, panels in read.pop("rows").items()}
    return Dashboard(**read, rows=rows)


def files(charts: Path) -> dict[Path, str]:
    """The text of each dashboard, by its path below the folder of the charts."""
    return {
        charts / _CHARTS.get(name, "odradek") / "files" / "dashboards" / f"{name}.json": _text(dashboard)
        for name, dashboard in read_dashboards().items()
    }


def _text(dashboard: Dashboard) -> str:
    written = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.doc,
        "tags": ["odradek"],
        "links": [_LINKS],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {"list": list(_variables(dashboard))},
    }
    # A panel a line: short enough to be looked at, and a change shows as the panel's own.
    head = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in written.items()]
    panels = ",\n".join(f"  {json.dumps(panel)}" for panel in _panels(dashboard))
    return "\n".join(["{", *head, ' "panels": [', panels, " ]", "}"]) + "\n"


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, variable in dashboard.variables.items():
        yield {
            "name": name,
            "label": variable["label"],
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": variable["query"], "refId": name},
            "refresh": 2,
            "sort": 1,
        }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for title, panels in dashboard.rows.items():
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
            yield {"id": number, "gridPos": place, **_drawn(panel, dashboard.selector)}
            number, left = number + 1, left + panel.width
        top += height


def _drawn(panel: Panel, selector: str) -> dict[str, Any]:
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
            "expr": expression.replace("<selector>", selector).replace("<span>", "$__rate_interval"),
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
