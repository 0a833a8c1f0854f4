"""manifests/ is what the charts render, and what only Helm understands is not in it."""

from __future__ import annotations

import pytest

from helm.generate.manifests import files
from helm.generate.prometheus_rules import PATH as PLAIN_RULES
from tests.support.helm import CHECKOUT, objects
from tests.support.programs import require_program

pytestmark = pytest.mark.thorough


def test_manifests_are_what_the_charts_render() -> None:
    for path, text in files(CHECKOUT, helm=require_program("helm")).items():
        assert path.read_text() == text, f"{path.name}: run: make manifests"


def test_nothing_of_helm_is_left() -> None:
    for path in files(CHECKOUT, helm=require_program("helm")):
        text = path.read_text()
        assert "helm.sh/" not in text
        assert ": Helm" not in text
        assert objects(text)


def test_every_rendered_file_is_of_a_chart() -> None:
    made = set(files(CHECKOUT, helm=require_program("helm")))
    there = {
        path
        for path in (CHECKOUT / "manifests").rglob("*.yaml")
        if path.parent.name not in ("crds", "examples")
        and "examples" not in path.parts
        and path != CHECKOUT / PLAIN_RULES
    }
    assert there == made
