"""Charts, manifests and examples name the images that `make images` builds, by registry, name and tag."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.helm import CHARTS, CHECKOUT, template

OURS = re.compile(r"(?:\w[\w./-]*/)?odradek/(?:broker|operator|pipeline):[\w.-]+")


@pytest.fixture
def built(tmp_path: Path) -> set[str]:
    """What `make images` tags, without anything else given. The builder is a program that writes its arguments down."""
    (tmp_path / "buildah").write_text(
        f'#!/bin/sh\nfor one in "$@"; do echo "$one"; done >> {tmp_path}/said\n'
    )
    (tmp_path / "buildah").chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if key != "TAG"}
    environment = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([str(CHECKOUT / "scripts" / "images")], env=environment, check=True, capture_output=True)
    return {line for line in (tmp_path / "said").read_text().splitlines() if OURS.fullmatch(line)}


@pytest.mark.thorough
@pytest.mark.integration
def test_everything_names_the_images_that_make_images_makes(built: set[str]) -> None:
    assert len(built) == 3
    texts = {path: path.read_text() for path in (CHECKOUT / "manifests").rglob("*") if path.is_file()}
    texts[CHECKOUT / "helm/odradek-operator"] = template(CHARTS / "odradek-operator")
    spark = ["spark.applications.enabled=true", "spark.enabled=true", "spark.applications.claim=a"]
    texts[CHECKOUT / "helm/odradek"] = template(CHARTS / "odradek", settings=spark)
    named = {name: str(path) for path, text in texts.items() for name in OURS.findall(text)}
    assert set(named) == built, named


@pytest.mark.thorough
def test_a_registry_of_ones_own_goes_before_it() -> None:
    rendered = template(CHARTS / "odradek-operator", settings=["global.imageRegistry=registry.example"])
    assert {name.partition("/")[0] for name in OURS.findall(rendered)} == {"registry.example"}


def test_no_manifest_names_a_namespace_that_it_does_not_make() -> None:
    for path in (CHECKOUT / "manifests" / "operator").glob("*.yaml"):
        text = path.read_text()
        made = set(re.findall(r"kind: Namespace\nmetadata:\n  name: (\S+)", text))
        assert made == set(re.findall(r"^ +namespace: (\S+)$", text, re.MULTILINE)), path.name
