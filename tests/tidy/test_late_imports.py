"""Imports stand at the top of a module. docs/architecture.md says what a start leaves out, and the doors that load it.

A door is a module `late` in a room's folder (`odradek.foundation.doors`). What is left inside functions are libraries
that may be missing, and modules that one function alone needs.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import PRODUCT, ROOT, named, sources

# A ratchet: a change may lower it.
IMPORTS_IN_FUNCTIONS_MAX: Final = 100
DOOR: Final = "late.py"


def imports_in_functions(path: Path) -> list[str]:
    """The places of import statements inside functions."""
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    lines = {
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return [named(path, line) for line in sorted(lines)]


def typed_and_loaded(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Of a door: the module of each name, for type checkers and for a running process."""
    tree = ast.parse(text)
    typed = {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.col_offset
        for alias in node.names
    }
    (table,) = (node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    return typed, ast.literal_eval(table)


def names_taken(path: Path) -> Iterator[str]:
    """The names that a module takes from a door."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "late":
            yield node.attr
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("late.")
        ):
            yield node.value.removeprefix("late.").partition("[")[0]


@pytest.mark.thorough
def test_few_imports_are_inside_functions() -> None:
    found = [place for path in sources(*PRODUCT) for place in imports_in_functions(path)]
    assert len(found) <= IMPORTS_IN_FUNCTIONS_MAX, "import at the top, or name it in the room's door: late.py"


def test_an_import_inside_a_function_is_found_once(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "import os\n\n\ndef one():\n    async def two():\n        import sys\n\n    from os import path\n"
    )
    assert imports_in_functions(path) == ["one.py:6", "one.py:8"]


def doors() -> list[Path]:
    return [path for path in sources(*PRODUCT) if path.name == DOOR]


@pytest.mark.parametrize("door", doors(), ids=named)
def test_a_door_loads_what_type_checkers_see(door: Path) -> None:
    typed, loaded = typed_and_loaded(door.read_text(encoding="utf-8"))
    assert typed == loaded
    # The server's rooms share one door.
    room = [path for path in door.parent.rglob("*.py") if path != door]
    room += list(door.parent.parent.glob("cluster/named/*.py"))
    taken = {name for path in room for name in names_taken(path)}
    assert set(loaded) <= taken, "no module of the room takes these names"


def test_the_page_names_each_door() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## What a start leaves out")[2].partition("\n## ")[0]
    folders = [str(door.parent.relative_to(ROOT)) for door in doors()]
    assert folders
    assert [one for one in folders if f"`{one}`" not in section] == []


def test_a_door_that_differs_is_seen() -> None:
    typed, loaded = typed_and_loaded(
        "if TYPE_CHECKING:\n    from a.b import One as One\nelse:\n    __getattr__ = f(__name__, {'One': 'a.c'})\n"
    )
    assert typed == {"One": "a.b"}
    assert loaded == {"One": "a.c"}


# Libraries of extras. What imports one of them, or a module of these, is loaded where its absence is explained.
_OF_EXTRAS: Final = ("google", "fastavro", "pytest", "re2", "yaml", "pyspark", "textual", "opentelemetry")
_WITH_AN_EXTRA: Final = [
    "odradek.broker.telemetry.span_export",
    "odradek.cli.cluster.top.screen",
    "odradek.client.schemas.proto_text",
    "odradek.testing.pytest_plugin",
]
_IMPORT_ALL: Final = """
import importlib, pkgutil, sys, odradek
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
for found in pkgutil.walk_packages(odradek.__path__, "odradek.", onerror=lambda name: None):
    if not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError:
            print(found.name)
"""


@pytest.mark.thorough
def test_a_module_needs_no_library_of_an_extra_to_be_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL, *_OF_EXTRAS],
        env={"PYTHONPATH": str(ROOT / "broker")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == _WITH_AN_EXTRA
