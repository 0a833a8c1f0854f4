"""Small changes of a sample of functions: each is one place of one function of the product.

    a condition is negated          if is_open:          if not (is_open):
    a comparison is moved by one    offset < end         offset <= end
    a comparison is turned          code == 0            code != 0
    a constant is one higher        position + 4         position + 5
    a statement is dropped          self.close()         pass

Lines of a log, and text that is shown, are left as they are.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.planted.bugs import CHECKOUT

PRODUCT: Final = ("broker/odradek", "operator/odradek_operator", "pipeline/odradek_pipeline")
_TURNED: Final[dict[type[ast.cmpop], ast.cmpop]] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutation(NamedTuple):
    """`source` is the whole file after the change of one place."""

    file: str
    line: int
    function: str
    what: str
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}: {self.what}"


def sample(count: int, seed: int, words: Sequence[str] = ()) -> list[Mutation]:
    """One mutation of each of `count` functions, chosen by `seed`; with words only files whose path has one."""
    chance = random.Random(seed)
    functions = [
        (path, function)
        for path in _files()
        if not words or any(word in path.relative_to(CHECKOUT).as_posix() for word in words)
        for function in _functions(ast.parse(path.read_text(encoding="utf-8")))
    ]
    chance.shuffle(functions)
    found: list[Mutation] = []
    for path, function in functions:
        if len(found) == count:
            break
        text = path.read_text(encoding="utf-8")
        mutations = [
            Mutation(path.relative_to(CHECKOUT).as_posix(), node.lineno, function.name, what, source)
            for node, replacement, what in places(function)
            if (source := _replaced(text, node, replacement)) != text and _is_valid(source)
        ]
        if mutations:
            found.append(chance.choice(mutations))
    return found


def _files() -> list[Path]:
    return sorted(path for root in PRODUCT for path in (CHECKOUT / root).rglob("*.py"))


def _functions(tree: ast.Module) -> Iterator[_Function]:
    return (node for node in ast.walk(tree) if isinstance(node, _Function) and node.name != "__repr__")


def places(function: _Function) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """(node, its replacement, the change in words) of each place of a function, but not of those within it."""
    for node in _own_nodes(function):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            condition = ast.unparse(node.test)
            yield node.test, f"(not ({condition}))", f"not ({condition})"
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _TURNED:
            turned = ast.unparse(ast.Compare(node.left, [_TURNED[type(node.ops[0])]], node.comparators))
            yield node, f"({turned})", f"{turned} for {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, f"({node.value + 1})", f"{node.value + 1} for {node.value}"
        elif isinstance(node, ast.Expr | ast.AugAssign) and not isinstance(
            getattr(node, "value", None), ast.Constant
        ):
            yield node, "pass", f"without {ast.unparse(node)}"


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Function | ast.ClassDef | ast.JoinedStr | ast.Raise | ast.Assert | ast.Slice):
            continue
        if isinstance(node, ast.Expr) and _is_of_log(node.value):
            continue
        yield node
        annotation = getattr(node, "annotation", None)
        waiting += (child for child in ast.iter_child_nodes(node) if child is not annotation)


def _is_of_log(value: ast.expr) -> bool:
    """Whether a statement is a line of the log, or a docstring."""
    if isinstance(value, ast.Constant):
        return True
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(called, ast.Attribute) and "logger" in ast.unparse(called.value)


def _replaced(text: str, node: ast.expr | ast.stmt, replacement: str) -> str:
    lines = text.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + replacement.encode() + after).decode()


def _is_valid(source: str) -> bool:
    try:
        compile(source, "mutated", "exec")
    except SyntaxError:
        return False
    return True
