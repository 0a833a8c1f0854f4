"""Functions are named by what they do: none begins with a past participle, which would say what was done instead.

Properties are left out, as they name a value. A table has the names that are one all the same, each with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import named, sources

# Packages that hold the rule. Another one joins when its last name is corrected.
PACKAGES: Final = (
    "broker/odradek",
    "operator/odradek_operator",
    "pipeline/odradek_pipeline",
    "pipeline/pyspark_odradek",
)

# Past participles without -ed. One that is also a noun or the verb itself, as `set` and `read`, is left out.
IRREGULAR: Final = frozenset(
    [
        "begun", "bound", "brought", "built", "caught", "chosen", "done", "drawn", "driven", "found",
        "given", "gone", "grown", "heard", "held", "hidden", "kept", "known", "laid", "left", "led", "lent",
        "lost", "made", "meant", "met", "paid", "said", "seen", "sent", "shaken", "shown", "shrunk", "sold",
        "sought", "spent", "spoken", "stolen", "stood", "struck", "sworn", "taken", "taught", "thought",
        "thrown", "told", "torn", "understood", "won", "worn", "written", "broken",
    ]
)  # fmt: skip
# Words that end in -ed and are no participles.
VERBS: Final = frozenset(("need", "feed", "seed", "embed", "exceed", "proceed", "shed", "speed", "succeed"))

_AS_FUTURE: Final = "The name that asyncio.Future has for it."
_ERROR: Final = "A noun: the error of something fenced or recreated, which the caller raises."

# Each name that begins with one and stays, and why.
EXCEPTIONS: Final[Mapping[str, str]] = {
    "_fenced_error": _ERROR,
    "_recreated_error": _ERROR,
    "_restored_version": "A noun: the version that RESTORE went back to.",
    "advertised_listeners": "A noun: Kafka's setting advertised.listeners.",
    "cancelled": _AS_FUTURE,
    "done": _AS_FUTURE,
    "finalized_level": "A noun: the level of a feature that brokers have finalized, as Kafka names it.",
    "known_offsets_at": "A noun: those of `offsets_at` that are known.",
    "secured_listeners": "A noun: the listeners with TLS or a login.",
    "secured_network": "Public: docs/python-client.md shows it.",
    "shared_settings": "A noun: the settings that brokers and controllers share.",
}


def functions(paths: Iterable[Path]) -> Iterator[tuple[str, Path, int]]:
    """(name, file, line) of each function and method that is no property."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
                yield node.name, path, node.lineno


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(one).endswith(("property", ".setter")) for one in node.decorator_list)


def begins_with_participle(name: str) -> bool:
    """Whether the first word is a past participle. Words of frameworks, as `onQueryStarted`, are one word."""
    first = name.strip("_").partition("_")[0]
    is_regular = first.endswith("ed") and first.islower() and first not in VERBS
    return is_regular or first in IRREGULAR


def wrong(found: Iterable[tuple[str, Path, int]], exceptions: Mapping[str, str]) -> list[str]:
    """Each name that begins with a participle without an exception, and each exception that no function needs."""
    errors, used = [], set()
    for name, path, line in found:
        if begins_with_participle(name):
            used.add(name)
            if name not in exceptions:
                errors.append(f"{named(path, line)}: {name}: name it by a verb and its object")
    return [
        *errors,
        *(
            f"{name} is the name of no function: remove its exception"
            for name in sorted(exceptions.keys() - used)
        ),
    ]


@pytest.mark.thorough
def test_functions_are_named_by_verbs() -> None:
    assert wrong(functions(sources(*PACKAGES)), EXCEPTIONS) == []


def test_participles_and_old_exceptions_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def looked(): ...\n"
        "class One:\n"
        "    async def _made_by(self): ...\n"
        "    @property\n"
        "    def known(self): ...\n"
        "    def onQueryStarted(self): ...\n"
        "def need_room(): ...\n"
        "def set_room(): ...\n"
        "def shared_room(): ...\n"
    )
    assert wrong(functions([path]), {"shared_room": "why", "gone_since": "why"}) == [
        "module.py:1: looked: name it by a verb and its object",
        "module.py:3: _made_by: name it by a verb and its object",
        "gone_since is the name of no function: remove its exception",
    ]
