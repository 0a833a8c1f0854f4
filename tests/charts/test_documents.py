"""Commands and YAML in what people read work as they stand: values exist, resources fit, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from helm.generate.crd_schema import spec_schema
from helm.generate.yaml_text import read_documents
from tests.charts.test_resources import DEFINITIONS
from tests.support.helm import CHECKOUT, KUBERNETES, helm

PAGES = [
    CHECKOUT / "README.md",
    CHECKOUT / "docs" / "kubernetes.md",
    *sorted((CHECKOUT / "helm").glob("*/README.md")),
    *sorted((CHECKOUT / "helm").glob("*/templates/NOTES.txt")),
]
# What a values block of a chart's README has at its root.
VALUES_KEYS = {"cluster", "topics", "topicDefaults", "consumerGroups"}


def _commands() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for command in re.findall(r"^\s*(helm (?:install|upgrade) .*)$", text, re.MULTILINE):
            if "{{" not in command:
                yield f"{page.parent.name}/{page.name}: {command}", shlex.split(command, comments=True)


def _blocks() -> Iterator[tuple[str, dict[str, Any]]]:
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)):
            for found in read_documents(block):
                yield f"{page.parent.name}/{page.name}#{number}", found


COMMANDS, BLOCKS = dict(_commands()), list(_blocks())


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_a_helm_command_is_taken_with_its_values(command: list[str]) -> None:
    assert (CHECKOUT / command[3]).is_dir(), "commands are given from the checkout's root"
    settings = [word for at, word in enumerate(command) if command[at - 1] == "--set"]
    given = [part for setting in settings for part in ("--set", setting)]
    helm("template", command[2], str(CHECKOUT / command[3]), "--kube-version", KUBERNETES, *given)


@pytest.mark.thorough
@pytest.mark.parametrize(("where", "found"), BLOCKS, ids=[where for where, _ in BLOCKS])
def test_yaml_in_a_page_is_a_resource_or_values(where: str, found: dict[str, Any], tmp_path: Path) -> None:
    if "kind" in found:
        assert found["apiVersion"] == "odradek.io/v1"
        schema = spec_schema(DEFINITIONS[found["kind"]])
        jsonschema.Draft202012Validator(schema).validate(found["spec"])
        return
    assert set(found) <= VALUES_KEYS, where
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(found))
    chart = str(CHECKOUT / "helm" / "odradek")
    helm("template", "log", chart, "--kube-version", KUBERNETES, "--values", str(tmp_path / "values.yaml"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / link).exists(), link
    for path in re.findall(r"--filename (manifests/[^\s`]+)", text):
        assert (CHECKOUT / path).exists(), path


def test_there_is_something_to_look_at() -> None:
    assert len(COMMANDS) >= 6
    assert len(BLOCKS) >= 4
