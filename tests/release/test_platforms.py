"""What is tried is declared once, in release.platforms; metadata, pages and the Makefile say the same."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from release.distributions import DISTRIBUTIONS, Distribution
from release.platforms import PYTHON_MINIMUM, PYTHONS_READ, PYTHONS_TRIED, SYSTEMS_TRIED, classifiers
from tests.support.broker_process import CHECKOUT


def text(path: str) -> str:
    return (CHECKOUT / path).read_text(encoding="utf-8")


def rows(head: str) -> dict[str, str]:
    """The table of docs/running-a-broker.md with this first head: each first cell, and the second one."""
    table = (
        text("docs/running-a-broker.md").partition(f"| {head} | what was tried |\n")[2].partition("\n\n")[0]
    )
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return {first: second for names, second in cells for first in names.split(", ")}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda one: one.name)
def test_metadata(distribution: Distribution) -> None:
    project: dict[str, Any] = tomllib.loads(text(f"{distribution.folder}/pyproject.toml"))["project"]
    about = ("Programming Language :: Python", "Operating System")
    assert {one for one in project["classifiers"] if one.startswith(about)} == classifiers()
    assert project["requires-python"] == f">={PYTHON_MINIMUM}"


def test_tools_and_the_makefile() -> None:
    tool = tomllib.loads(text("pyproject.toml"))["tool"]
    assert tool["mypy"]["python_version"] == PYTHON_MINIMUM
    assert tool["ruff"]["target-version"] == "py" + PYTHON_MINIMUM.replace(".", "")
    makefile = text("Makefile")
    bounds = re.findall(r"sys\.version_info < \((\d+), (\d+)\)", makefile)
    assert [".".join(bound) for bound in bounds] == [PYTHON_MINIMUM]
    (newest,) = re.findall(r"mypy --platform darwin --python-version (\S+)", makefile)
    assert newest == PYTHONS_READ[-1]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "broker/README.md",
        "operator/README.md",
        "pipeline/README.md",
        "Makefile",
    ],
)
def test_pages_name_the_oldest(page: str) -> None:
    named = re.findall(r"Python (?:of )?(3\.\d+) or newer", text(page))
    assert set(named) == {PYTHON_MINIMUM}


def test_the_page_says_what_is_tried() -> None:
    pythons = rows("Python")
    assert tuple(pythons) == (*PYTHONS_TRIED, *PYTHONS_READ)
    assert {one for one, tried in pythons.items() if "no test has run" in tried.lower()} == set(PYTHONS_READ)
    systems = rows("system")
    assert {one for one, tried in systems.items() if tried == "every test"} == {
        one.rpartition(" ")[2] for one in SYSTEMS_TRIED
    }
