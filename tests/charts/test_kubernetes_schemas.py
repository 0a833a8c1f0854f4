"""What charts render fits Kubernetes' own schemas, from the oldest version that the charts name to the newest known.

Schemas come with the package kubernetes-validate. Objects of the Prometheus and the Spark operator have none there: of
those only what all objects have is looked at. Our own resources are checked against our definitions, in test_resources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.charts.cases import CHART_NAMES, WITHOUT_SCHEMAS, accepted, golden
from tests.support.helm import objects

CASES = [case for chart in CHART_NAMES for case in accepted(chart)]
VERSIONS = ("1.29", "1.34")
# Rendered for a Kubernetes that has them, and for no older one.
NOT_IN_1_29 = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_what_is_rendered_fits_kubernetes_schemas(case: Path, version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="`make test-all` installs it")
    checked = 0
    for manifest in objects(golden(case).read_text()):
        if manifest["apiVersion"] in WITHOUT_SCHEMAS:
            continue
        if version == "1.29" and manifest["kind"] in NOT_IN_1_29:
            continue
        kubernetes_validate.validate(manifest, version, strict=True)
        checked += 1
    assert checked or case.parent.name == "odradek"


def _pods(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod specifications in a manifest."""
    match manifest["kind"]:
        case "Pod":
            return [manifest["spec"]]
        case "Deployment" | "StatefulSet" | "Job":
            return [manifest["spec"]["template"]["spec"]]
    return []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_pods_fit_the_restricted_standard(case: Path) -> None:
    """A namespace that enforces it would refuse the pods long after Helm has said that all is well."""
    for manifest in objects(golden(case).read_text()):
        for pod in _pods(manifest):
            assert pod["securityContext"]["runAsNonRoot"] is True
            if case.stem == "openshift":
                assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(pod["securityContext"])
            else:
                assert pod["securityContext"]["runAsUser"] > 0
            assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
            assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
            for volume in pod.get("volumes", ()):
                assert set(volume) - {"name"} <= {"emptyDir", "configMap", "secret", "projected"}
            for container in [*pod["containers"], *pod.get("initContainers", ())]:
                security = container["securityContext"]
                assert security["allowPrivilegeEscalation"] is False
                assert security["readOnlyRootFilesystem"] is True
                assert security["capabilities"] == {"drop": ["ALL"]}
                assert "memory" in container["resources"]["limits"]
                assert all("hostPort" not in port for port in container.get("ports", ()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_everything_has_its_labels_and_no_two_things_one_name(case: Path) -> None:
    seen = set()
    for manifest in objects(golden(case).read_text()):
        metadata = manifest["metadata"]
        thing = (manifest["kind"], metadata.get("namespace"), metadata["name"])
        assert thing not in seen
        seen.add(thing)
        assert len(metadata["name"]) <= 253
        if metadata["name"].endswith(("-more", "as-text")):
            continue  # what the values bring along is as they wrote it
        labels = metadata["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/part-of"] == "odradek"
        assert labels["app.kubernetes.io/instance"] == "log"
