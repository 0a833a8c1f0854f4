"""A module of a few lines that one module of its own folder needs is a part of that one: a reader opens one file.

Left out is what is loaded when it is asked for. Functions alone import such a module, or a table of its folder or of
the commands names it.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pytest

from tests.tidy.checkout import ROOT, sources

LINES_MIN: Final = 60

# The modules that stay, each with the reason.
EXCEPTIONS: Final[Mapping[str, str]] = {
    "odradek.broker.groups.classic.subscriptions": "A thread reads them; no rebalance does.",
    "odradek.broker.groups.consumer.deadlines": "Timers, apart from a group's states.",
    "odradek.broker.groups.consumer.reconciliation": "KIP-848's rules for one member, apart from a group's.",
    "odradek.broker.groups.streams.deadlines": "Timers, apart from a group's states.",
    "odradek.broker.groups.internal_topics": "Work beside the coordinator's answers, with a memory of its own.",
    "odradek.broker.groups.expiration": "A task beside the coordinator's answers.",
    "odradek.broker.listeners.late": "The door of its room: docs/architecture.md, what a start leaves out.",
    "odradek.broker.requests.not_served": "The APIs that no handler serves, beside `table`, which has the others.",
    "odradek.broker.process.quota_watch": "A start without quotas loads little of it, and `broker_process` is long.",
    "odradek.client.classic.async_connector": "`aio` is a public face: it has names, and no code.",
    "odradek.storage.retention": "Rules without a log, which is long; who looks for retention finds it by its name.",
    "odradek_operator.main.strip_finalizers": "Its work; `commands` is what three commands do with a client.",
    "odradek_operator.reconcilers.topic.replicas": "`decide` would have more than 450 lines, and no class.",
    "odradek_pipeline.cli.console": "Lines for programs, without rich, which `terminal_console` loads.",
}

_NO_CODE: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(text: str) -> int:
    """Lines with code: blanks, comments and docstrings are left out."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if ast.get_docstring(node, clean=False) is not None and first is not None:
                lines -= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(lines)


def small_modules(modules: Mapping[str, str]) -> Iterator[str]:
    """Of (name, text) those that are too small to stand alone."""
    importers: dict[str, set[str]] = {}
    apart: set[str] = set()
    for name, text in modules.items():
        tree = ast.parse(text)
        at_load = set(_imports(_outside_functions(tree), modules))
        for imported in set(_imports(ast.walk(tree), modules)):
            importers.setdefault(imported, set()).add(name)
            if imported not in at_load:
                apart.add(imported)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = node.value.partition(":")[0]
                apart |= {named, f"{_folder(name)}.{named}"} & modules.keys() - {name}
    for name, by in importers.items():
        (importer, *others) = by
        if others or name in apart or _folder(name) != _folder(importer):
            continue
        lines = lines_of_code(modules[name])
        if lines < LINES_MIN:
            yield f"{name} has {lines} lines of code, and {importer} alone needs it: make it a part of that"


def _folder(name: str) -> str:
    return name.rpartition(".")[0]


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is loaded, and what type checkers read."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _outside_functions(child)


def _imports(nodes: Iterable[ast.AST], modules: Mapping[str, str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found = name if name in modules else node.module
                if found in modules:
                    yield found


def _texts(source_root: str) -> dict[str, str]:
    """By the module's name; packages' own files are no modules here."""
    return {
        ".".join(path.relative_to(ROOT / source_root).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in sources(source_root)
        if path.name != "__init__.py"
    }


@pytest.mark.thorough
@pytest.mark.parametrize("source_root", ["broker", "operator", "pipeline"])
def test_no_module_is_a_small_part_of_one_other(source_root: str) -> None:
    found = [line for line in small_modules(_texts(source_root)) if line.split()[0] not in EXCEPTIONS]
    assert found == []


def test_a_small_module_is_found() -> None:
    part, whole = "VALUE = 1\n", "X = 1\n" * LINES_MIN
    assert (
        lines_of_code(
            '"""Head."""\n\n# Why\nVALUE = (\n    1\n)\n\n\ndef one():\n    """Is one."""\n    return 1\n'
        )
        == 5
    )
    at_load, later = "from a import part\n", "def one():\n    from a import part\n"
    too_small = ["a.part has 1 lines of code, and a.one alone needs it: make it a part of that"]
    assert list(small_modules({"a.part": part, "a.one": at_load})) == too_small
    for modules in (
        {"a.part": whole, "a.one": at_load},
        {"a.part": part, "a.one": later},
        {"a.part": part, "b.one": at_load},
        {"a.part": part, "a.one": at_load, "a.two": at_load},
        {"a.part": part, "a.one": at_load, "a.table": "DOORS = ['part']\n"},
        {"a.part": part, "a.one": at_load, "b.main": "VERBS = ['a.part:verb']\n"},
    ):
        assert list(small_modules(modules)) == []
