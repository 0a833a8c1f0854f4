"""Prometheus' own tool takes every alert and rule of the charts, and evaluates them as they are meant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.cases import accepted, golden
from tests.support.helm import CHECKOUT, objects
from tests.support.prometheus import promtool

PLAIN = CHECKOUT / "manifests" / "monitoring" / "prometheus-rules.yaml"


def _rules(chart: str) -> dict[str, Any]:
    """The groups of a chart's PrometheusRule, with everything that it can have."""
    text = golden(next(case for case in accepted(chart) if case.stem == "everything")).read_text()
    (found,) = [one for one in objects(text) if one["kind"] == "PrometheusRule"]
    return {"groups": found["spec"]["groups"]}


@pytest.mark.thorough
@pytest.mark.parametrize("chart", ["odradek", "odradek-operator"])
def test_promtool_takes_the_charts_rules(chart: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(_rules(chart)))
    assert "SUCCESS" in promtool("check", "rules", tmp_path / "rules.yaml")


@pytest.mark.thorough
def test_promtool_takes_the_rules_without_kubernetes() -> None:
    assert "SUCCESS" in promtool("check", "rules", PLAIN)


@pytest.mark.thorough
@pytest.mark.parametrize(("actives", "fires"), [("1", False), ("0", True), (None, True)])
def test_a_cluster_without_an_active_controller_raises_its_alert(
    actives: str | None, fires: bool, tmp_path: Path
) -> None:
    rules = _rules("odradek")
    (alert,) = [
        rule
        for group in rules["groups"]
        for rule in group["rules"]
        if rule["alert"] == "OdradekNoActiveController"
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    found = re.search(r"odradek_is_controller\{.*?\}", alert["expr"])
    assert found is not None, alert["expr"]
    series = found[0].replace("=~", "=")
    given = [] if actives is None else [{"series": series, "values": f"{actives}+0x60"}]
    fired = f"count(ALERTS{{alertname='{alert['alert']}',alertstate='firing'}}) or vector(0)"
    asked = {"expr": fired, "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}
    case = {"interval": "1m", "input_series": given, "promql_expr_test": [asked]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": [case]}))
    promtool("test", "rules", tmp_path / "cases.yaml")
