"""docs/architecture.md: what it says to look at is there, and each module that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from odradek.foundation.settings.broker_settings import all_settings
from odradek.metadata.image.configs import TOPIC_SETTINGS
from tests.support.page_folder import REPOSITORY

PAGE: Final = "docs/architecture.md"
BROKER: Final = REPOSITORY / "broker" / "odradek"
OPERATOR: Final = REPOSITORY / "operator" / "odradek_operator"
ROWS_MIN: Final = 20
# Parts of the text that begin with the name of a room, and are files of a log directory.
FILES: Final = {"registry.sqlite"}


def text() -> str:
    return (REPOSITORY / PAGE).read_text(encoding="utf-8")


def rows() -> list[tuple[str, str]]:
    """(file, name) of each row of "Where to look"."""
    table = text().partition("## Where to look\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| .* \| `([^`]+)` \| `([^`]+)` \|$", table, re.MULTILINE)


def path_of(file: str) -> Path:
    """Files are named from `broker/odradek` on, those of operator and pipeline from the checkout on."""
    is_elsewhere = file.startswith(("operator/", "pipeline/"))
    return (REPOSITORY if is_elsewhere else BROKER) / file


def defines(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether a module or class defines `name`, which may be `Class.method`."""
    first, _, rest = name.partition(".")
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == first:
            return not rest or (isinstance(node, ast.ClassDef) and defines(node.body, rest))
        if isinstance(node, ast.Assign | ast.AnnAssign) and not rest:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == first for target in targets):
                return True
    return False


def module_defines(path: Path, name: str) -> bool:
    return defines(ast.parse(path.read_text(encoding="utf-8")).body, name)


def is_there(dotted: str, package: Path = BROKER) -> bool:
    """Whether a dotted name leads to a package, a module, or what a module defines."""
    folder, parts = package, dotted.split(".")
    for index, part in enumerate(parts):
        rest = ".".join(parts[index + 1 :])
        if (folder / part).is_dir():
            folder /= part
        elif (folder / f"{part}.py").exists():
            return not rest or module_defines(folder / f"{part}.py", rest)
        else:
            return False
    return True


def test_the_table_has_its_rows() -> None:
    assert len(rows()) >= ROWS_MIN


@pytest.mark.parametrize(("file", "name"), rows(), ids=[name for _, name in rows()])
def test_a_row_leads_to_the_file_that_defines_it(file: str, name: str) -> None:
    assert path_of(file).exists(), f"{PAGE} names {file}"
    assert module_defines(path_of(file), name), f"{file} does not define {name}"


def test_each_module_that_the_page_names_is_there() -> None:
    rooms = {path.name for path in BROKER.iterdir() if path.is_dir()}
    # A name that lost its room begins with a package of a room.
    rooms |= {path.name for room in rooms for path in (BROKER / room).iterdir() if path.is_dir()}
    rooms |= {path.stem for path in (BROKER / "storage").glob("*.py")}
    named = set(re.findall(r"`((?:[a-z_]+\.)+\w+)`", text())) - FILES
    named -= set(all_settings()) | set(TOPIC_SETTINGS)
    wrong = {name for name in named if name.partition(".")[0] in rooms and not is_there(name)}
    assert wrong == set(), f"{PAGE} names {sorted(wrong)}"


def test_a_name_that_leads_nowhere_is_found() -> None:
    assert is_there("storage.log.Log") and is_there("broker.requests.table")
    assert not is_there("log.Log") and not is_there("storage.log.Lag")


def test_each_file_that_a_page_names_is_there() -> None:
    """Paths with a folder, from the checkout, a source root or a package on; a part in capitals stands for any name."""
    roots = ("", "broker/odradek", "operator/odradek_operator", "pipeline/odradek_pipeline")
    named = re.compile(r"`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]*\.py)`")
    wrong = [
        f"{page.relative_to(REPOSITORY)} names {file}"
        for page in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"))
        for file in named.findall(page.read_text(encoding="utf-8"))
        if not re.search(r"\b[A-Z]{3,}\b", file)
        and not any((REPOSITORY / root / file).exists() for root in roots)
    ]
    assert wrong == []


def test_each_module_that_a_design_page_names_is_there() -> None:
    rooms = {path.name for path in BROKER.iterdir() if (path / "__init__.py").exists()} - {"client", "server"}
    named = re.compile(r"`((?:" + "|".join(sorted(rooms)) + r")(?:\.\w+)+)`")
    wrong = [
        f"{page.name} names {module}"
        for page in (REPOSITORY / "docs" / "design").glob("*.md")
        for module in named.findall(page.read_text(encoding="utf-8"))
        if not (module in all_settings() or is_there(module) or is_there(module, OPERATOR))
    ]
    assert wrong == []
