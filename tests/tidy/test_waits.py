"""A wait in a test is one of `tests.support.polling`: it has one bound, and its failure shows what was not so.

Left alone are loops that work at a pace, as loads and faults do; they are counted, and nothing may be added to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.polling import SECONDS_MAX
from tests.tidy.checkout import named, sources

# Loops that sleep, waits with a bound of their own, and those of these that are left. Lower them when there are fewer.
LOOPS_MAX: Final = 103
BOUNDS_MAX: Final = 14

_HELPER: Final = "tests/support/polling.py"
_SLEEPS: Final = frozenset({"time.sleep", "asyncio.sleep"})
# Calls that wait for a process, thread or future that ends in any case.
_WAITS: Final = frozenset({"communicate", "join", "result", "wait"})
# What is shorter is not there to bound a wait.
_BOUND_SECONDS_MIN: Final = 5


def loops_that_sleep(path: Path) -> Iterator[str]:
    """While loops with a sleep that lets time pass, each as the line where the loop begins."""
    for loop in ast.walk(_parsed(path)):
        if isinstance(loop, ast.While) and any(_is_sleep(node) for node in ast.walk(loop)):
            yield named(path, loop.lineno)


def bounds_of_their_own(path: Path) -> Iterator[str]:
    """Waits with a number of seconds below the bound for all."""
    for call in ast.walk(_parsed(path)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _WAITS:
            given = [*call.args, *(one.value for one in call.keywords if one.arg == "timeout")]
            seconds = [one.value for one in given if isinstance(one, ast.Constant)]
            if any(
                isinstance(one, int | float) and _BOUND_SECONDS_MIN <= one < SECONDS_MAX for one in seconds
            ):
                yield named(path, call.lineno)


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_sleep(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in _SLEEPS
        and not (isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    )


def _files() -> list[Path]:
    return [path for path in sources("tests", "bench", "e2e") if named(path) != _HELPER]


@pytest.mark.thorough
def test_no_loop_is_added_that_waits_by_itself() -> None:
    found = [one for path in _files() for one in loops_that_sleep(path)]
    assert len(found) <= LOOPS_MAX, f"use {_HELPER}: {found}"


@pytest.mark.thorough
def test_no_wait_is_added_with_a_bound_of_its_own() -> None:
    found = [one for path in _files() for one in bounds_of_their_own(path)]
    assert len(found) <= BOUNDS_MAX, f"use SECONDS_MAX of {_HELPER}: {found}"


def test_it_sees_what_it_refuses(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "while not is_so():\n    time.sleep(0.1)\nwhile True:\n    await asyncio.sleep(0)\n"
        "process.wait(60)\nthread.join(0.1)\nfuture.result(timeout=20)\n"
    )
    assert list(loops_that_sleep(module)) == ["module.py:1"]
    assert list(bounds_of_their_own(module)) == ["module.py:5", "module.py:7"]
