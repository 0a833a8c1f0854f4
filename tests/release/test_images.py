"""The images: what is asked of the builder, and which dependencies and packages go into which image."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from release import version
from tests.support.broker_process import CHECKOUT

NAMES = ("broker", "operator", "pipeline")
DOCKERFILE = (CHECKOUT / "Dockerfile").read_text()


def stage(name: str) -> str:
    """The text of a stage of the Dockerfile."""
    found = re.search(rf"^FROM \S+ AS {name}\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return found[1]


def dependencies(folder: str) -> list[str]:
    about = tomllib.loads((CHECKOUT / folder / "pyproject.toml").read_text())
    needs: list[str] = (
        about["project"].get("dependencies")
        or about["tool"]["hatch"]["metadata"]["hooks"]["custom"]["requires"]
    )
    return needs


def asked_of_the_builder(checkout: Path, folder: Path) -> list[list[str]]:
    """Arguments of each build that scripts/images starts. The builder is a program that writes them down."""
    folder.mkdir()
    (folder / "buildah").write_text(
        f'#!/bin/sh\nfor one in "$@"; do echo "$one"; done >> {folder}/said\necho >> {folder}/said\n'
    )
    (folder / "buildah").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TAG": "1.2.3"}
    subprocess.run([str(checkout / "scripts" / "images")], env=environment, check=True, capture_output=True)
    return [build.splitlines() for build in (folder / "said").read_text().split("\n\n") if build]


@pytest.mark.integration
def test_each_image_is_built_with_the_version_and_the_commit(own_copy: Path, tmp_path: Path) -> None:
    builds = asked_of_the_builder(own_copy, tmp_path / "one")
    assert [build[build.index("--target") + 1] for build in builds] == list(NAMES)
    for name, build in zip(NAMES, builds, strict=True):
        assert f"VERSION={version.declared()}" in build
        assert any(re.fullmatch("REVISION=[0-9a-f]{40}", word) for word in build)
        assert f"localhost/odradek/{name}:1.2.3" in build
        assert "--label" not in build
    project = own_copy / "pyproject.toml"
    urls = '[project.urls]\nRepository = "https://code.example/odradek"\n\n[project.scripts]'
    project.write_text(project.read_text().replace("[project.scripts]", urls))
    for build in asked_of_the_builder(own_copy, tmp_path / "other"):
        assert (
            build[build.index("--label") + 1]
            == "org.opencontainers.image.source=https://code.example/odradek"
        )


def test_each_image_has_the_dependencies_that_its_distribution_asks_for(tmp_path: Path) -> None:
    program = "\n".join(
        re.findall(r"^ *(?:RUN printf '%s\\n' )?'(.*)' (?:\\|\|)", stage("requirements"), re.MULTILINE)
    )
    for name in (
        "pyproject.toml",
        "operator/pyproject.toml",
        "pipeline/pyproject.toml",
        "pipeline/connector.xml",
    ):
        program = program.replace(f'"/{name}"', f'"{CHECKOUT / name}"')
    program = program.replace('f"/{name}.txt"', f'f"{tmp_path}/{{name}}.txt"')
    subprocess.run([sys.executable, "-c", program], check=True)
    wanted = {name: set((tmp_path / f"{name}.txt").read_text().splitlines()) for name in NAMES}
    # The broker's has what makes compaction quick, and the packages of logins and of traces.
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert wanted["broker"] == {
        *dependencies("."),
        *extras["compaction"],
        *extras["security"],
        *extras["traces"],
    }
    assert wanted["operator"] == {
        need for need in (*dependencies("."), *dependencies("operator")) if not need.startswith("odradek")
    }
    needs = (*dependencies("."), *dependencies("pipeline"))
    assert wanted["pipeline"] == {*(one for one in needs if not one.startswith("odradek")), "pyspark==4.0.0"}


@pytest.mark.parametrize(
    ("name", "sources"),
    [("broker", {"broker"}), ("operator", {"broker", "operator"}), ("pipeline", {"broker", "pipeline"})],
)
def test_an_image_takes_its_own_distributions_only(name: str, sources: set[str]) -> None:
    assert re.search(rf"^FROM {name}-dependencies AS {name}$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"--from=(\S+)", stage(name)) == [f"{name}-product"]
    copied = set(re.findall(r"^COPY (\w+) \1$", stage(f"{name}-product"), re.MULTILINE))
    base = re.search(rf"^FROM (\S+) AS {name}-product$", DOCKERFILE, re.MULTILINE)
    assert base is not None
    if base[1].endswith("-product"):
        copied |= set(re.findall(r"^COPY (\w+) \1$", stage(base[1]), re.MULTILINE))
    assert copied == sources
