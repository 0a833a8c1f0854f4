"""Alerts on what a broker really shows: two scrapes of /metrics, before a fault and under it, as series for promtool.

A gauge keeps what it had in the second scrape, and with `rises` so does its slope. With `continues` a counter grows by
what it grew between the scrapes, in each minute; else it stays.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from helm.generate.prometheus_rules import filled_in
from tests.support.broker_process import CHECKOUT
from tests.support.prometheus import minutes_of, run_promtool

# Values by selector, as promtool names series.
Scrape = dict[str, float]
_BEFORE: Final = 20
_JOB: Final = 'job="odradek"'
_ALERTS: Final = {alert["alert"]: alert for alert in filled_in(CHECKOUT, "odradek", _JOB)}


def scrape(ports: Mapping[str, int]) -> Scrape:
    """/metrics of processes on this machine, by the names that their pods would have; `up` as Prometheus makes it."""
    found: Scrape = {}
    for pod, port in ports.items():
        is_up = f'up{{job="odradek",pod="{pod}"}}'
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                text = answer.read().decode()
        except OSError:
            found[is_up] = 0
            continue
        found[is_up] = 1
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = {"job": "odradek", "pod": pod, **sample.labels}
                inner = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
                found[f"{sample.name}{{{inner}}}"] = sample.value
    return found


def value_of(scraped: Scrape, metric: str) -> float:
    """The sum of a metric's samples."""
    return sum(value for selector, value in scraped.items() if selector.partition("{")[0] == metric)


def is_raised(
    name: str,
    before: Scrape,
    after: Scrape,
    folder: Path,
    *,
    continues: bool = False,
    rises: bool = False,
) -> bool:
    """Whether the chart's alert is raised, with its own thresholds, once the fault has lasted for its `for`."""
    alert = _ALERTS[name]
    asked = set(re.findall(r"\b(up(?={)|(?:odradek|process)_\w+)", alert["expr"]))
    minutes = _BEFORE + minutes_of(alert.get("for", "0m")) + 6
    series = []
    for selector in sorted({*before, *after}):
        metric = selector.partition("{")[0]
        if metric in asked:
            grows = continues if metric.endswith(("_total", "_bucket")) else rises
            values = _values(before.get(selector), after.get(selector), minutes, grows=grows)
            series.append({"series": selector, "values": " ".join(values)})
    assert series, f"nothing was scraped of {asked}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [alert]}]}))
    if _evaluates_to(1, name, series, minutes, folder):
        return True
    assert _evaluates_to(0, name, series, minutes, folder), f"promtool cannot evaluate {name}"
    return False


def _values(before: float | None, after: float | None, minutes: int, *, grows: bool) -> list[str]:
    values: list[float | None] = [before] * _BEFORE
    step = (after or 0) - (before or 0) if grows else 0
    values += [None if after is None else after + step * minute for minute in range(minutes - _BEFORE)]
    return ["stale" if value is None else f"{value:.10g}" for value in values]


def _evaluates_to(expected: int, name: str, series: list[dict[str, str]], minutes: int, folder: Path) -> bool:
    fired = f"count_over_time(ALERTS{{alertname='{name}',alertstate='firing'}}[{minutes}m])"
    case = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": f"max({fired} > bool 0) or vector(0)",
                "eval_time": f"{minutes - 1}m",
                "exp_samples": [{"labels": "{}", "value": expected}],
            }
        ],
    }
    test = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    path = folder / f"expects-{expected}.yaml"
    path.write_text(yaml.safe_dump(test, width=1_000_000))
    return run_promtool("test", "rules", path).returncode == 0
