"""No module imports itself by way of others, in no package: the parts of a circle can only be read all at once.

Every import statement counts: also those inside functions and those for type checkers alone. So does the face of a
package (`odradek/__init__.py`): it names modules deep inside, and none of them imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"odradek": "broker", "odradek_operator": "operator", "odradek_pipeline": "pipeline"}


def _modules(package: str) -> dict[str, Path]:
    folder = ROOT / PACKAGES[package]
    modules = {}
    for path in sorted((folder / package).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def _imports(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in modules else node.module


def _graph(package: str) -> dict[str, set[str]]:
    modules = _modules(package)
    return {
        name: {one for one in _imports(path, modules) if one in modules} for name, path in modules.items()
    }


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The largest sets of modules each of which reaches all others of its set."""
    reached = {name: _reached(name, graph) for name in graph}
    return {
        frozenset({name, *(one for one in reached[name] if name in reached[one])})
        for name in graph
        if name in reached[name]
    }


def _reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert circles(graph) == {frozenset("bc"), frozenset("e")}


@pytest.mark.thorough
@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    found = [" <-> ".join(sorted(circle)) for circle in circles(_graph(package))]
    assert not found, "these modules import each other; move what they share below both"


def rooms_of(graph: dict[str, set[str]]) -> Iterator[dict[str, set[str]]]:
    """For each package, which of the packages directly below it import each other directly."""
    packages = {name.rpartition(".")[0] for name in graph}
    for package in sorted(packages):
        depth = package.count(".") + 2
        rooms = {one for one in packages if one.startswith(f"{package}.") and one.count(".") + 1 == depth}

        def room_of(name: str, depth: int = depth) -> str:
            return ".".join(name.split(".")[:depth])

        inside = {
            room: {room_of(to) for name in graph if room_of(name) == room for to in graph[name]}
            for room in rooms
        }
        yield {room: (found & rooms) - {room} for room, found in inside.items()}


def test_a_circle_of_rooms_is_found() -> None:
    graph = {
        "o.start": {"o.a.one"},
        "o.a.one": {"o.b.two"},
        "o.b.two": {"o.c.x"},
        "o.b.three": {"o.a.four"},
        "o.a.four": set(),
        "o.c.x": set(),
    }
    assert [circles(rooms) for rooms in rooms_of(graph) if rooms] == [{frozenset({"o.a", "o.b"})}]


@pytest.mark.thorough
@pytest.mark.parametrize("package", PACKAGES)
def test_no_room_imports_itself_by_way_of_its_neighbours(package: str) -> None:
    found = [" <-> ".join(sorted(one)) for rooms in rooms_of(_graph(package)) for one in circles(rooms)]
    assert not found, "these rooms import each other; move what they share beside or below both"
