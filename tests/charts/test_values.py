"""values.yaml, values.schema.json, the README's table and the dashboard are what the declarations say."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from helm.generate.__main__ import charts, files
from helm.generate.declaration import ChartValues, Section, Value, walk
from helm.generate.yaml_text import read_document
from tests.support.helm import CHARTS, objects, template

DECLARED = charts()


@pytest.mark.generated
@pytest.mark.parametrize(("path", "text"), files().items(), ids=lambda given: getattr(given, "name", ""))
def test_a_made_file_is_as_it_would_be_made_now(path: Path, text: str) -> None:
    assert path.read_text() == text, "run: make reference"


@pytest.mark.parametrize("chart", DECLARED, ids=lambda chart: chart.chart)
def test_the_defaults_fit_the_schema_and_the_schema_is_one(chart: ChartValues) -> None:
    schema = json.loads((CHARTS / chart.chart / "values.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    defaults = read_document((CHARTS / chart.chart / "values.yaml").read_text())
    jsonschema.Draft202012Validator(schema).validate(defaults)


@pytest.mark.parametrize("chart", DECLARED, ids=lambda chart: chart.chart)
def test_an_example_of_a_value_fits_its_schema(chart: ChartValues) -> None:
    schema = json.loads((CHARTS / chart.chart / "values.schema.json").read_text())
    for path, item in walk(chart.content):
        if isinstance(item, Value) and item.example:
            given = read_document(item.example)
            for name in reversed(path.split(".")):
                given = {name: given}
            jsonschema.Draft202012Validator(schema).validate(given)


@pytest.mark.parametrize("chart", DECLARED, ids=lambda chart: chart.chart)
def test_templates_read_what_is_declared_and_all_of_it(chart: ChartValues) -> None:
    declared = {path for path, _ in walk(chart.content)}
    templates = "\n".join(path.read_text() for path in (CHARTS / chart.chart / "templates").rglob("*.*"))
    read = set(re.findall(r"\.Values\.([A-Za-z0-9.]+[A-Za-z0-9])", templates))
    assert read <= declared
    for path, item in walk(chart.content):
        if isinstance(item, Section) or path == "enabled":
            continue
        # Below a `with` only the last names are there; a whole section may be handed on as it is.
        parts = path.split(".")
        tails = {".".join(parts[at:]) for at in range(len(parts))}
        whole = any(".".join(parts[:at]) in read for at in range(1, len(parts) + 1))
        assert whole or any(f".{tail}" in templates for tail in tails), f"{path} has no effect"


@pytest.mark.parametrize("chart", DECLARED, ids=lambda chart: chart.chart)
def test_every_value_is_explained(chart: ChartValues) -> None:
    for path, item in walk(chart.content):
        assert item.doc.endswith("."), path


@pytest.mark.thorough
@pytest.mark.parametrize("chart", DECLARED, ids=lambda chart: chart.chart)
def test_a_chart_can_be_part_of_another(chart: ChartValues, tmp_path: Path) -> None:
    """What Helm hands down to a part (`global`, the condition) is no unknown value there."""
    (tmp_path / "templates").mkdir()
    shutil.copytree(CHARTS / chart.chart, tmp_path / "charts" / chart.chart)
    part = {"name": chart.chart, "version": ">=0", "condition": f"{chart.chart}.enabled"}
    about = {"apiVersion": "v2", "name": "whole", "version": "1.0.0", "dependencies": [part]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(about))
    values = {"global": {"imageRegistry": "mirror.example", "region": "eu"}, chart.chart: {"enabled": True}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    text = template(tmp_path)
    assert "mirror.example/odradek/" in text
    assert not objects(template(tmp_path, settings=[f"{chart.chart}.enabled=false"]))
