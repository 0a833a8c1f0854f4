"""What the chart and the examples declare fits our definitions, as an API server would see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from helm.generate.crd_schema import spec_schema
from helm.generate.yaml_text import read_document, write_documents
from tests.charts.cases import accepted, golden
from tests.support.helm import CHARTS, CHECKOUT, objects, template

MANIFESTS = CHECKOUT / "manifests"
DEFINITIONS = {
    definition["spec"]["names"]["kind"]: definition
    for definition in (read_document(path.read_text()) for path in (MANIFESTS / "crds").glob("*.yaml"))
}


def _resources() -> Iterator[tuple[str, dict[str, Any]]]:
    texts: list[tuple[str, str]] = [
        (f"chart/{case.stem}", golden(case).read_text()) for case in accepted("odradek")
    ]
    texts += [
        (f"examples/{path.stem}", path.read_text())
        for path in sorted((MANIFESTS / "examples").glob("*.yaml"))
    ]
    about = read_document((CHARTS / "odradek-operator" / "Chart.yaml").read_text())
    shown = read_document(about["annotations"]["artifacthub.io/crdsExamples"])
    texts.append(("artifacthub", write_documents(shown)))
    for where, text in texts:
        for found in objects(text):
            if found["apiVersion"] == "odradek.io/v1":
                yield f"{where}/{found['kind']}/{found['metadata']['name']}", found


RESOURCES = dict(_resources())


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=RESOURCES)
def test_a_resource_fits_its_definition(resource: dict[str, Any]) -> None:
    schema = spec_schema(DEFINITIONS[resource["kind"]])
    jsonschema.Draft202012Validator(schema).validate(resource["spec"])


@pytest.mark.parametrize("path", sorted((MANIFESTS / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_says_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith("# ")
    for found in objects(path.read_text()):
        assert found["metadata"]["name"]


def test_every_example_names_clusters_of_an_example() -> None:
    made = {found["metadata"]["name"] for where, found in RESOURCES.items() if found["kind"] == "Cluster"}
    for where, found in RESOURCES.items():
        if where.startswith("examples/") and found["kind"] != "Cluster":
            assert _clusters_named(found["spec"]) <= made, where


def _clusters_named(spec: dict[str, Any]) -> set[str]:
    """The Clusters of a resource: one, or those that a Mirror reads and writes. Other Kafkas have addresses."""
    ends = [spec["target"], *spec["sources"]] if "target" in spec else [spec]
    named = {end["cluster"] for end in ends if "cluster" in end}
    assert named, spec
    return named


def test_what_artifact_hub_shows_are_the_definitions_there_are() -> None:
    about = read_document((CHARTS / "odradek-operator" / "Chart.yaml").read_text())
    shown = read_document(about["annotations"]["artifacthub.io/crds"])
    assert {(crd["kind"], crd["name"], crd["version"]) for crd in shown} == {
        (kind, definition["metadata"]["name"], definition["spec"]["versions"][0]["name"])
        for kind, definition in DEFINITIONS.items()
    }


@pytest.mark.thorough
def test_spark_has_the_same_rights_with_helm_and_without() -> None:
    plain = objects((MANIFESTS / "examples" / "spark" / "rbac.yaml").read_text())
    text = template("odradek", settings=["spark.enabled=true"], show_only=["templates/spark/rights.yaml"])
    rules = {
        name: [role["rules"] for role in found if role["kind"] == "Role"]
        for name, found in (("plain", plain), ("chart", objects(text)))
    }
    assert len(rules["plain"]) == 2
    assert sorted(rules["chart"], key=str) == sorted(rules["plain"], key=str)
