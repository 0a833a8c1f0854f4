"""Every limit of `foundation` bounds something: a name that nothing reads is a promise that nothing keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.checkout import PRODUCT, ROOT, sources

LIMITS: Final = [
    ROOT / "broker" / "odradek" / "foundation" / "limits.py",
    ROOT / "broker" / "odradek" / "foundation" / "client_limits.py",
    ROOT / "broker" / "odradek" / "foundation" / "mirror_limits.py",
    ROOT / "broker" / "odradek" / "foundation" / "console_limits.py",
    ROOT / "broker" / "odradek" / "foundation" / "support_limits.py",
    ROOT / "broker" / "odradek" / "foundation" / "top_limits.py",
    ROOT / "broker" / "odradek" / "foundation" / "turn_limits.py",
    ROOT / "broker" / "odradek" / "foundation" / "telemetry_limits.py",
]


def unused(limits: Path, paths: Iterable[Path]) -> set[str]:
    """The names that `limits` declares and no other file reads."""
    declared = {
        target.id
        for node in ast.parse(limits.read_text(encoding="utf-8")).body
        for target in _targets(node)
        if isinstance(target, ast.Name)
    }
    for path in paths:
        if path != limits:
            declared -= _names_read(path)
    return declared


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


@cache
def _names_read(path: Path) -> frozenset[str]:
    """Names that a file reads, alone or as an attribute. An import alone reads nothing."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )


@pytest.mark.thorough
def test_every_limit_is_used() -> None:
    for limits in LIMITS:
        assert unused(limits, sources(*PRODUCT)) == set()


def test_an_unused_limit_is_found(tmp_path: Path) -> None:
    limits, reader = tmp_path / "limits.py", tmp_path / "reader.py"
    limits.write_text("A_MAX: Final = 1\nB_MAX: Final = 2\nC_MAX = 3\nD_MAX = 4\n")
    reader.write_text("from limits import A_MAX, B_MAX\nimport limits\nprint(A_MAX, limits.C_MAX)  # B_MAX\n")
    assert unused(limits, [limits, reader]) == {"B_MAX", "D_MAX"}
