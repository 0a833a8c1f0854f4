"""Each alert is raised by its fault after its `for`, and neither in health nor by a fault that is shorter.

The series are those of `alert_series.py`. One run of promtool evaluates them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from helm.generate.prometheus_rules import PATH as PLAIN_RULES
from helm.generate.prometheus_rules import filled_in
from helm.generate.yaml_text import read_document
from tests.charts.alert_series import ALERTS, OF_CLUSTERS, OF_THE_OPERATOR, Row, Series
from tests.support.helm import CHECKOUT
from tests.support.prometheus import minutes_of, promtool, run_promtool

# Minutes of health before the fault and after it.
BEFORE: Final = 20
AFTER: Final = 40
SCOPES: Final = {
    "odradek": 'namespace="shop", odradek_cluster="log"',
    "odradek-operator": 'namespace="shop", pod=~"o-.*"',
}
ROWS: Final = {"odradek": OF_CLUSTERS, "odradek-operator": OF_THE_OPERATOR}
Alert = dict[str, Any]


def alerts_of(chart: str) -> dict[str, Alert]:
    """The alerts of a chart by name, with its default thresholds."""
    return {alert["alert"]: alert for alert in filled_in(CHECKOUT, chart, SCOPES[chart])}


def plain_alerts() -> dict[str, Alert]:
    """Those for a Prometheus without Kubernetes."""
    document = read_document((CHECKOUT / PLAIN_RULES).read_text())
    return {alert["alert"]: alert for group in document["groups"] for alert in group["rules"]}


def given(series: Series, scope: str, minutes: int, begin: int, end: int) -> dict[str, str]:
    selector = series.selector.replace("{", "{" + scope.replace(", pod=~", ",x=").replace(" ", "") + ",")
    values = ("stale" if value is None else f"{value:.10g}" for value in series.values(minutes, begin, end))
    return {"series": selector, "values": " ".join(values)}


def cases(alert: Alert, row: Row, scope: str) -> Iterator[dict[str, Any]]:
    """promtool's tests of one alert: the fault that lasts, the fault that does not, and health."""
    waits = minutes_of(alert.get("for", "0m"))
    fired = f"count_over_time(ALERTS{{alertname='{alert['alert']}',alertstate='firing'}}[%dm]) > bool 0"
    raised = f"max({fired}) or vector(0)"

    def case(name: str, end: int, expected: dict[int, bool]) -> dict[str, Any]:
        minutes = max(expected) + 1
        return {
            "name": f"{alert['alert']}: {name}",
            "interval": "1m",
            "input_series": [given(series, scope, minutes, BEFORE, end) for series in row.series],
            "promql_expr_test": [
                {
                    "expr": raised % (at + 1),
                    "eval_time": f"{at}m",
                    "exp_samples": [{"labels": "{}", "value": int(is_raised)}],
                }
                for at, is_raised in expected.items()
            ],
        }

    seen = BEFORE + waits + row.late
    expected = {BEFORE - 1: False, seen + AFTER: True}
    if waits > 1:
        expected = {**expected, BEFORE + waits - 1: False, seen + 2: True}
    yield case("a fault that lasts", seen + AFTER + 1, expected)
    if waits:
        brief = waits - 1 if row.brief is None else row.brief
        if brief:
            yield case("a fault that ends", BEFORE + brief, {BEFORE + waits + AFTER: False})
    yield case("health", 0, {BEFORE + waits + AFTER: False})


def write_case(folder: Path, name: str, alert: Alert, row: Row, scope: str) -> Path:
    """Rules of this alert alone, so that promtool evaluates no others with its series."""
    rules = folder / f"{name}.rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": name, "rules": [alert]}]}))
    test = {"rule_files": [rules.name], "evaluation_interval": "1m", "tests": list(cases(alert, row, scope))}
    path = folder / f"{name}.test.yaml"
    path.write_text(yaml.safe_dump(test, width=1_000_000))
    return path


def without_pods(row: Row) -> Row:
    """The series as they are without Kubernetes, where a target is known by its instance."""
    series = (
        Series(one.selector.replace("pod=", "instance="), one.healthy, one.faulty, one.step, one.is_counter)
        for one in row.series
    )
    return Row(tuple(series), row.brief, row.late)


def test_every_alert_has_its_series() -> None:
    for chart, rows in ROWS.items():
        assert set(alerts_of(chart)) == set(rows), "add a row to tests/charts/alert_series.py"
    assert set(plain_alerts()) <= set(ALERTS)


def test_series_are_written_minute_by_minute() -> None:
    assert list(Series("a", 1, 5, step=2).values(5, 1, 4)) == [1, 5, 7, 9, 1]
    assert list(Series("a", 1, None).values(3, 1, 2)) == [1, None, 1]
    assert list(Series("a", 0, 2, is_counter=True).values(4, 1, 3)) == [0, 2, 4, 4]


@pytest.mark.thorough
def test_alerts_are_raised_by_their_fault_alone(tmp_path: Path) -> None:
    files = [
        write_case(tmp_path, name, alert, ROWS[chart][name], SCOPES[chart])
        for chart in ROWS
        for name, alert in alerts_of(chart).items()
    ]
    files += [
        write_case(tmp_path, f"plain-{name}", alert, without_pods(ALERTS[name]), 'job="odradek"')
        for name, alert in plain_alerts().items()
    ]
    promtool("test", "rules", *files)


@pytest.mark.thorough
def test_an_alert_that_is_never_raised_is_found(tmp_path: Path) -> None:
    name = "OdradekBrokerFenced"
    alert = alerts_of("odradek")[name]
    broken = {**alert, "expr": alert["expr"].replace("> 0", "> 1")}
    path = write_case(tmp_path, name, broken, ALERTS[name], SCOPES["odradek"])
    assert run_promtool("test", "rules", path).returncode != 0
