"""Alerts and dashboards ask for metrics that exist, by labels that they have, in PromQL that parses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest

from helm.generate.yaml_text import read_document
from odradek.foundation.metrics import METRICS as BROKER_METRICS
from odradek.foundation.metrics import Metric, MetricKind
from odradek_operator.foundation.metrics import METRICS as OPERATOR_METRICS
from odradek_pipeline.work.metrics import METRICS as RUN_METRICS
from tests.charts.cases import accepted, golden
from tests.support.helm import CHARTS, CHECKOUT, objects

# Those of pipelines' drivers, as broker and operator declare theirs.
PIPELINE_METRICS = {
    one.shown_name: Metric(MetricKind(one.kind), one.shown_name, one.meaning, one.labels)
    for one in RUN_METRICS
}
# Prometheus makes it for each target.
UP = Metric(MetricKind.GAUGE, "up", "1 while a target can be scraped, else 0.", ())
METRICS: dict[str, Metric] = {UP.name: UP, **BROKER_METRICS, **OPERATOR_METRICS, **PIPELINE_METRICS}
# What the PodMonitors' targets bring along; a metric's own label of such a name is renamed when it is scraped.
TARGET_LABELS = {"namespace", "pod", "container", "job", "instance"}
CLUSTER_LABELS = {"odradek_cluster", "component"}
# Grafana's own words, for which something that parses is put in.
PLAIN_RULES = "prometheus-rules.yaml"
GRAFANA = {"$__rate_interval": "5m"}
# What the annotations of an object may have together.
LAST_APPLIED_BYTES_MAX = 256 << 10
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in CHARTS.glob("*/files/dashboards/*.json")}


def _alerts(chart: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for found in objects(
        golden(next(case for case in accepted(chart) if case.stem == "everything")).read_text()
    ):
        if found["kind"] == "PrometheusRule":
            for group in found["spec"]["groups"]:
                for rule in group["rules"]:
                    yield f"{chart}/{rule['alert']}", rule


def _plain_rules() -> Iterator[tuple[str, dict[str, Any]]]:
    """Rules for a Prometheus without Kubernetes."""
    document = read_document((CHECKOUT / "manifests" / "monitoring" / PLAIN_RULES).read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            yield f"{PLAIN_RULES}/{rule['alert']}", rule


def _panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def _plain(text: str) -> str:
    """An expression of Grafana with something that parses in place of its words."""
    for word, stands_for in GRAFANA.items():
        text = text.replace(word, stands_for)
    return re.sub(r"\$(\w+)", r"\1", text)


def _expressions() -> Iterator[tuple[str, str]]:
    for chart in ("odradek-operator", "odradek"):
        for name, rule in _alerts(chart):
            yield name, rule["expr"]
    for name, rule in _plain_rules():
        yield name, rule["expr"]
    for name, dashboard in DASHBOARDS.items():
        for panel in _panels(dashboard):
            for target in panel["targets"]:
                # The operator's pods are no Cluster's.
                where = "odradek-operator" if name == "operator" else f"dashboard-{name}"
                yield f"{where}/{panel['title']}/{target['refId']}", _plain(target["expr"])


EXPRESSIONS = dict(_expressions())


def _nodes(node: Any) -> Iterator[Any]:
    """An expression and all that it is made of."""
    yield node
    parts = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "param")]
    for part in [*parts, *(getattr(node, "args", None) or ())]:
        if part is not None and hasattr(part, "prettify"):
            yield from _nodes(part)


def _selectors(text: str) -> dict[str, Any]:
    """What an expression selects, by the metric's name."""
    nodes = _nodes(promql_parser.parse(text))
    return {str(node.name): node for node in nodes if isinstance(node, promql_parser.VectorSelector)}


def _declared(name: str) -> Metric:
    if name in METRICS:
        return METRICS[name]
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    assert base in METRICS, f"{name} is not declared"
    assert METRICS[base].kind is MetricKind.HISTOGRAM, f"{base} is no histogram"
    return METRICS[base]


def _labels(metric: Metric, name: str, where: str) -> set[str]:
    own = {f"exported_{label}" if label in TARGET_LABELS else label for label in metric.labels}
    extra = CLUSTER_LABELS if not where.startswith("odradek-operator") else set()
    return own | TARGET_LABELS | extra | ({"le"} if name.endswith("_bucket") else set())


@pytest.mark.parametrize(("where", "text"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_an_expression_asks_for_what_there_is(where: str, text: str) -> None:
    selectors = _selectors(text)
    assert selectors
    known: set[str] = set()
    for name, selector in selectors.items():
        labels = _labels(_declared(name), name, where)
        known |= labels
        matched = {matcher.name for matcher in selector.matchers.matchers}
        assert matched <= labels, f"{name} has no label {matched - labels}"
        scope = {"job"} if where.startswith(PLAIN_RULES) else {"namespace", "exported_namespace"}
        assert matched & scope, "another cluster's numbers would be taken in"
    for node in _nodes(promql_parser.parse(text)):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            assert set(node.modifier.labels) <= known, f"none has {set(node.modifier.labels) - known}"


@pytest.mark.parametrize(("where", "text"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_a_rate_is_taken_of_counters_and_of_nothing_else(where: str, text: str) -> None:
    rated: set[str] = set()
    for node in _nodes(promql_parser.parse(text)):
        if isinstance(node, promql_parser.Call) and node.func.name in ("rate", "increase"):
            rated |= set(_selectors(str(node)))
    rising = {name for name in _selectors(text) if _declared(name).kind is not MetricKind.GAUGE}
    assert rated == rising


def test_conditions_that_are_asked_for_are_set_by_the_operator() -> None:
    asked = {
        matcher.value
        for text in EXPRESSIONS.values()
        for selector in _selectors(text).values()
        for matcher in selector.matchers.matchers
        if matcher.name == "condition"
    }
    source = "".join(path.read_text() for path in (CHECKOUT / "operator" / "odradek_operator").rglob("*.py"))
    assert asked == {"Ready", "LagWithinObjective"}
    for name in asked:
        assert f'"{name}"' in source


def test_every_alert_says_what_where_and_what_to_do() -> None:
    rules = [rule for chart in ("odradek-operator", "odradek") for _, rule in _alerts(chart)]
    assert rules
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"https://runbooks.example/{rule['alert']}"
        assert "<" not in rule["annotations"]["summary"], "a threshold was not filled in"
        used = set(re.findall(r"\$labels\.([a-z_]+)", str(rule["annotations"])))
        grouped = [
            set(node.modifier.labels)
            for node in _nodes(promql_parser.parse(rule["expr"]))
            if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None
        ]
        for labels in grouped:
            assert used <= labels, f"{rule['alert']} speaks of labels that its expression takes away"


def test_rules_without_kubernetes_name_no_pod_and_no_resource() -> None:
    rules = dict(_plain_rules())
    assert len(rules) > 10
    for rule in rules.values():
        for word in ("pod", "Cluster", "ConsumerGroup", "odradek.io", "namespace"):
            assert word not in str(rule), f"{rule['alert']} speaks of Kubernetes: {word}"


@pytest.mark.thorough
def test_alerts_can_be_left_out_and_thresholds_set() -> None:
    names = {rule["alert"] for _, rule in _alerts("odradek")}
    declared = {
        alert["alert"] for alert in read_document((CHARTS / "odradek" / "files" / "alerts.yaml").read_text())
    }
    assert declared - names == {"OdradekOpenFilesNearLimit"}
    behind = EXPRESSIONS["odradek/OdradekGroupBehind"]
    assert behind.endswith("> 60")


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_lie_on_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    dashboard = DASHBOARDS[name]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def test_there_is_a_dashboard_of_each_thing_that_people_look_at() -> None:
    assert set(DASHBOARDS) == {"cluster", "topic", "group", "operator", "pipeline", "mirror"}
    assert len({one["uid"] for one in DASHBOARDS.values()}) == len(DASHBOARDS)
    for name, dashboard in DASHBOARDS.items():
        titles = [panel["title"] for panel in _panels(dashboard)]
        assert len(titles) == len(set(titles)), f"{name} has two panels of one title"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_what_a_reader_chooses_are_labels_that_there_are(name: str) -> None:
    dashboard = DASHBOARDS[name]
    chosen: set[str] = set()
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            query = variable["query"]["query"]
            assert set(re.findall(r"\$(\w+)", query)) <= chosen, "a query uses what is chosen after it"
            expression, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()  # type: ignore[union-attr]
            (selector,) = _nodes(promql_parser.parse(_plain(expression)))
            by_pattern = [one.value for one in selector.matchers.matchers if one.name == "__name__"]
            for metric in by_pattern[0].split("|") if by_pattern else [selector.name]:
                assert label in _labels(_declared(metric), metric, name), f"{metric} has no label {label}"
            chosen.add(variable["name"])
    used = set(
        re.findall(r"\$(\w+)", str([panel["targets"] for panel in dashboard["panels"] if "targets" in panel]))
    )
    assert used - {"__rate_interval"} == chosen


@pytest.mark.parametrize("name", DASHBOARDS)
def test_legends_are_of_labels_that_are_left(name: str) -> None:
    for panel in _panels(DASHBOARDS[name]):
        for target in panel["targets"]:
            expression = promql_parser.parse(_plain(target["expr"]))
            left = [
                set(node.modifier.labels)
                for node in _nodes(expression)
                if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None
            ]
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert not left or named <= left[0] or not named, f"{panel['title']}: {named} of {left}"


@pytest.mark.thorough
@pytest.mark.parametrize("chart", ["odradek-operator", "odradek"])
def test_dashboards_fit_into_a_config_map_that_kubectl_applies(chart: str) -> None:
    (path,) = [case for case in accepted(chart) if case.stem == "everything"]
    (found,) = [
        one
        for one in objects(golden(path).read_text())
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-dashboard")
    ]
    texts = {path.name: path.read_text() for path in (CHARTS / chart / "files" / "dashboards").iterdir()}
    # Helm takes the blanks at the end.
    given = {name.removeprefix("odradek-"): text.strip() for name, text in found["data"].items()}
    assert given == {name: text.strip() for name, text in texts.items()}
    # `kubectl apply` keeps the whole object in an annotation.
    assert len(json.dumps(found)) < LAST_APPLIED_BYTES_MAX


@pytest.mark.parametrize("chart", ["odradek-operator", "odradek"])
def test_the_rendered_alerts_are_those_of_the_charts_file(chart: str) -> None:
    rendered = {name.partition("/")[2]: rule["expr"] for name, rule in _alerts(chart)}
    declared = read_document((CHARTS / chart / "files" / "alerts.yaml").read_text())
    for alert in declared:
        # Placeholders are filled in from the values.
        expected = re.sub(r"<\w+>", ".*", re.escape(alert["expr"]))
        found = rendered.get(alert["alert"])
        assert found is None or re.fullmatch(expected, found, re.DOTALL), f"{alert['alert']}: {found}"
    assert len(rendered) >= len(declared) - 1


@pytest.mark.parametrize(
    "alert", ["odradek-operator/OdradekOperatorNotLeading", "odradek/OdradekNoActiveController"]
)
def test_a_missing_process_is_noticed_without_any_metrics_of_it(alert: str) -> None:
    """A sum of nothing is no number, which no comparison holds for."""
    assert "or vector(0)) != 1" in EXPRESSIONS[alert]
