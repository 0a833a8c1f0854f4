"""An upgrade meets no field that Kubernetes forbids to change, and what Helm keeps or deletes is what people expect."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.generate.yaml_text import read_document
from tests.charts.cases import CHART_NAMES, HERE
from tests.support.helm import CHARTS, HelmFailed, objects, template

# What the API server refuses to change, by kind. Anything else that charts make can be changed.
IMMUTABLE: dict[str, tuple[tuple[str, ...], ...]] = {
    "Deployment": (("spec", "selector"),),
    "RoleBinding": (("roleRef",),),
    "ClusterRoleBinding": (("roleRef",),),
    "Service": (("spec", "clusterIP"),),
}


def _fixed(text: str) -> dict[tuple[str, ...], Any]:
    """Every field that must not change, by where it is."""
    found: dict[tuple[str, ...], Any] = {}
    for thing in objects(text):
        for path in IMMUTABLE.get(thing["kind"], ()):
            value: Any = thing
            for name in path:
                value = value[name]
            metadata = thing["metadata"]
            found[(thing["kind"], metadata.get("namespace", ""), metadata["name"], *path)] = value
    return found


def _newer(chart: str, folder: Path) -> Path:
    """The chart as a later version."""
    copy = folder / chart
    shutil.copytree(CHARTS / chart, copy)
    about = read_document((copy / "Chart.yaml").read_text())
    (copy / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": "9.8.7", "appVersion": "9.8.7"}))
    return copy


@pytest.mark.thorough
@pytest.mark.parametrize("chart", CHART_NAMES)
def test_a_newer_version_with_other_values_changes_no_immutable_field(chart: str, tmp_path: Path) -> None:
    before = _fixed(template(chart))
    # All other values at once, but for those that give things another name.
    values = read_document((HERE / "values" / chart / "everything.yaml").read_text())
    for renaming in ("fullnameOverride", "watch", "extraObjects"):
        values.pop(renaming, None)
    if chart == "odradek":
        del values["cluster"]["name"], values["spark"]["serviceAccount"]
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    after = _fixed(template(_newer(chart, tmp_path), values=[tmp_path / "values.yaml"]))
    assert {place: after.get(place) for place in before} == before
    assert before or chart == "odradek"


@pytest.mark.thorough
def test_a_newer_version_of_the_operator_chart_alone_makes_no_new_pod(tmp_path: Path) -> None:
    """The pods' own description names the application's version, and not the chart's."""
    about = read_document((CHARTS / "odradek-operator" / "Chart.yaml").read_text())
    newer = _newer("odradek-operator", tmp_path)
    (newer / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": "9.8.7"}))
    pods = [
        next(found["spec"]["template"] for found in objects(text) if found["kind"] == "Deployment")
        for text in (template("odradek-operator"), template(newer))
    ]
    assert pods[0] == pods[1]


@pytest.mark.thorough
def test_definitions_are_kept_and_are_those_of_manifests() -> None:
    plain = {
        path.name: read_document(path.read_text())
        for path in (CHARTS.parent / "manifests" / "crds").glob("*.yaml")
    }
    rendered = {
        f"{found['spec']['names']['plural']}.yaml": found
        for found in objects(
            template("odradek-operator", settings=["crds.annotations.a=b", "commonLabels.team=x"])
        )
        if found["kind"] == "CustomResourceDefinition"
    }
    assert (
        set(rendered)
        == set(plain)
        == {"clusters.yaml", "topics.yaml", "consumergroups.yaml", "users.yaml", "mirrors.yaml"}
    )
    for name, found in rendered.items():
        metadata = found["metadata"]
        assert metadata.pop("annotations") == {"helm.sh/resource-policy": "keep", "a": "b"}
        assert metadata.pop("labels")["team"] == "x"
        assert found == plain[name]


@pytest.mark.thorough
@pytest.mark.parametrize(("setting", "kept"), [("crds.keep=false", False), ("crds.keep=true", True)])
def test_definitions_go_with_the_release_only_when_asked(setting: str, kept: bool) -> None:
    for found in objects(template("odradek-operator", settings=[setting])):
        if found["kind"] == "CustomResourceDefinition":
            assert ("helm.sh/resource-policy" in found["metadata"].get("annotations", {})) is kept


@pytest.mark.thorough
def test_definitions_can_be_left_to_others() -> None:
    found = objects(template("odradek-operator", settings=["crds.install=false"]))
    assert not [thing for thing in found if thing["kind"] == "CustomResourceDefinition"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "kept"),
    [((), set()), (("cluster.keep=true",), {"Cluster"}), (("keepTopics=true",), {"Topic", "ConsumerGroup"})],
    ids=["nothing", "the-cluster", "topics"],
)
def test_resources_stay_behind_only_when_asked(settings: tuple[str, ...], kept: set[str]) -> None:
    made = ("topics.orders.partitions=1", "consumerGroups.billing.groupId=billing")
    found = [
        thing for thing in objects(template("odradek", settings=[*made, *settings])) if thing["kind"] != "Pod"
    ]
    assert {thing["kind"] for thing in found} == {"Cluster", "Topic", "ConsumerGroup"}
    staying = {
        thing["kind"]
        for thing in found
        if "helm.sh/resource-policy" in thing["metadata"].get("annotations", {})
    }
    assert staying == kept


@pytest.mark.thorough
def test_the_test_pod_is_a_hook_that_cleans_up() -> None:
    (pod,) = [thing for thing in objects(template("odradek")) if thing["kind"] == "Pod"]
    annotations = pod["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "test"
    assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"


@pytest.mark.thorough
def test_an_older_kubernetes_is_refused() -> None:
    for chart in CHART_NAMES:
        with pytest.raises(HelmFailed, match=r"incompatible with Kubernetes v1\.28\.0"):
            template(chart, kubernetes="1.28.0")
        template(chart, kubernetes="1.29.3-vendor.1")
