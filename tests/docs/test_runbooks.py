"""docs/runbooks: a page for each alert, whose commands parse and whose panels, metrics and log lines exist.

`tests/integration/test_runbooks.py` plays commands of some of them on brokers with the fault.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml

from helm.generate.prometheus_rules import filled_in, rules
from odradek.foundation.metrics import METRICS as BROKER_METRICS
from odradek_operator.foundation.metrics import METRICS as OPERATOR_METRICS
from release.version import repository
from tests.support.helm import CHARTS, CHECKOUT, objects, template
from tests.support.runbooks import FOLDER, commands, parse

HEADINGS: Final = (
    "What users notice",
    "What to look at",
    "What to type",
    "When it is over",
    "What not to do",
)
ALERTS: Final = {
    alert["alert"]: alert
    for chart in ("odradek", "odradek-operator")
    for alert in filled_in(CHECKOUT, chart, 'namespace="shop"')
}
PAGES: Final = {path.stem: path for path in FOLDER.glob("Odradek*.md")}
# What kubectl is asked for, with the options that it has of those that pages give.
KUBECTL: Final = {
    "annotate": {"--overwrite"},
    "auth": {"--as"},
    "delete": {"--selector"},
    "describe": set(),
    "exec": set(),
    "get": {"--all-namespaces", "--field-selector", "--raw", "--selector", "--sort-by"},
    "logs": {"--previous", "--selector", "--since"},
    "patch": {"--patch", "--type"},
    "port-forward": set(),
    "scale": {"--replicas"},
    "top": {"--selector"},
}


def part(name: str, heading: str) -> str:
    """The text below a heading of a page."""
    _, _, after = PAGES[name].read_text().partition(f"\n## {heading}\n")
    return after.partition("\n## ")[0]


def words_of(text: str) -> str:
    return " ".join(text.split())


@cache
def panels() -> dict[str, set[str]]:
    """The titles of each dashboard's panels, by its own title."""
    found = {}
    for path in CHARTS.glob("*/files/dashboards/*.json"):
        dashboard = json.loads(path.read_text())
        found[dashboard["title"]] = {panel["title"] for panel in dashboard["panels"]}
    return found


@cache
def sources() -> str:
    """What the product's modules say, each run of blanks as one."""
    texts = (path.read_text() for path in sorted(CHECKOUT.glob("*/odradek*/**/*.py")))
    return words_of("\n".join(texts))


def test_every_alert_has_a_page_and_every_page_its_alert() -> None:
    assert set(PAGES) == set(ALERTS), "write a page in docs/runbooks, and a row of its README.md"


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_has_all_its_parts(name: str) -> None:
    text = PAGES[name].read_text()
    assert text.startswith(f"# {name}\n")
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == HEADINGS
    for heading in HEADINGS:
        assert part(name, heading).strip()
    assert commands(name), "nothing to type"


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_names_panels_and_metrics_that_there_are(name: str) -> None:
    looked_at = words_of(part(name, "What to look at"))
    bullets = [f" {one}" for one in looked_at.split("- ") if one.strip()]
    named = [re.findall(r"\*([^*]+)\*", one) for one in bullets if one.startswith(" Dashboard")]
    assert named, "no dashboard"
    for title, *titles in named:
        assert titles and set(titles) <= panels()[title], set(titles) - panels()[title]
    metrics = set(re.findall(r"`((?:odradek|process)_\w+)`", PAGES[name].read_text()))
    assert metrics and metrics <= {*BROKER_METRICS, *OPERATOR_METRICS}
    asked = set(re.findall(r"\b(up|(?:odradek|process)_\w+?)(?:_bucket)?{", ALERTS[name]["expr"]))
    # Prometheus makes `up` itself.
    assert asked & {*metrics, "up"}, f"the page names none of {asked}, which the alert looks at"


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_quotes_log_lines_that_are_written(name: str) -> None:
    looked_at = words_of(part(name, "What to look at"))
    for bullet in looked_at.split("- "):
        # A member's log is not ours.
        if re.match(r"Log of (?!the members)", bullet):
            quoted = re.findall(r"`([^`]+)`", bullet)
            assert quoted
            for text in quoted:
                assert text in sources(), f"no line says {text!r}"


@pytest.mark.parametrize("name", ALERTS)
def test_commands_of_a_page_parse(name: str) -> None:
    for words in commands(name):
        if words[0] == "odradek":
            parse(words)
        elif words[0] == "kubectl":
            options = [word.partition("=")[0] for word in words[1:] if word.startswith("-") and word != "--"]
            rest = [
                word
                for word in words[1:]
                if not word.startswith("-") and word not in ("demo", "odradek-system")
            ]
            assert rest[0] in KUBECTL, words
            before = options[: options.index("--bootstrap")] if "--bootstrap" in options else options
            assert set(before) <= KUBECTL[rest[0]] | {"--namespace", "--verify-only"}, words
        else:
            assert words[0] in ("curl", "helm", "journalctl", "systemctl"), words


def test_a_command_that_does_not_parse_is_found() -> None:
    for command in (
        "odradek topics describe --sideways",
        "odradek topics elect-leader",
        "odradek brokers drain x",
    ):
        with pytest.raises(click.ClickException):
            parse(command.split())


def test_the_index_names_every_page_with_its_severity() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \|", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    assert {name: severity for name, _, severity in rows} == {
        name: alert["labels"]["severity"] for name, alert in ALERTS.items()
    }
    assert all(name == page for name, page, _ in rows)


# --- addresses --------------------------------------------------------------------------------------------------------


def rendered(chart: Path, *settings: str) -> dict[str, str | None]:
    """The runbook_url of each alert of a chart."""
    section = "metrics" if chart.name == "odradek-operator" else "monitoring"
    text = template(
        chart, settings=[f"{section}.prometheusRule.enabled=true", *(f"{section}.{one}" for one in settings)]
    )
    (found,) = [one for one in objects(text) if one["kind"] == "PrometheusRule"]
    return {
        rule["alert"]: rule["annotations"].get("runbook_url")
        for group in found["spec"]["groups"]
        for rule in group["rules"]
    }


@pytest.mark.thorough
@pytest.mark.parametrize("chart", ["odradek", "odradek-operator"])
def test_alerts_lead_to_their_pages_where_the_chart_has_an_address(chart: str, tmp_path: Path) -> None:
    folder = copied_chart(chart, tmp_path)
    home, version = "https://code.example/odradek", chart_of(folder)["appVersion"]
    found = rendered(folder)
    assert found
    for name, url in found.items():
        assert url == f"{home}/blob/v{version}/docs/runbooks/{name}.md"
        assert (CHECKOUT / url.removeprefix(f"{home}/blob/v{version}/")).exists()
    own = rendered(folder, "prometheusRule.runbookUrl=https://runbooks.example/")
    assert own == {name: f"https://runbooks.example/{name}" for name in found}
    in_place = rendered(folder, r"prometheusRule.runbookUrl=https://runbooks.example/\{alert\}.html")
    assert in_place == {name: f"https://runbooks.example/{name}.html" for name in found}


@pytest.mark.thorough
@pytest.mark.parametrize("chart", ["odradek", "odradek-operator"])
def test_without_an_address_alerts_lead_nowhere(chart: str, tmp_path: Path) -> None:
    folder = copied_chart(chart, tmp_path, address=None)
    assert set(rendered(folder).values()) == {None}


def test_rules_without_kubernetes_lead_to_the_pages_too(tmp_path: Path) -> None:
    for chart in ("odradek", "odradek-operator"):
        copied_chart(chart, tmp_path / "helm")
    alerts = yaml.safe_load(rules(tmp_path))["groups"][0]["rules"]
    for alert in alerts:
        url = alert["annotations"]["runbook_url"]
        assert url.startswith("https://code.example/odradek/blob/v") and url.endswith(
            f"/docs/runbooks/{alert['alert']}.md"
        )


def test_the_rules_that_are_kept_lead_where_the_project_says() -> None:
    text = (CHECKOUT / "manifests" / "monitoring" / "prometheus-rules.yaml").read_text()
    assert ("runbook_url" in text) is (repository() is not None)


def copied_chart(chart: str, folder: Path, address: str | None = "https://code.example/odradek") -> Path:
    """A chart as a release has it, which declares this address of the repository."""
    copied = folder / chart
    shutil.copytree(CHARTS / chart, copied)
    described = {**chart_of(copied), "home": address}
    (copied / "Chart.yaml").write_text(
        yaml.safe_dump({key: value for key, value in described.items() if value is not None})
    )
    return copied


def chart_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "Chart.yaml").read_text())
    return found
