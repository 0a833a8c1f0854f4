"""Every line that the product logs is bounded, and goes through the handler that bounds it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from odradek.foundation.limits import LOG_LINE_BYTES_MAX
from tests.support.log_lines import Log
from tests.tidy.checkout import PRODUCT, named, sources

METHODS: Final = frozenset(("debug", "info", "warning", "error", "exception", "critical", "log"))
LOGGERS: Final = frozenset(("logger", "lines", "log", "logging", "http_logger"))
# Most files log nothing, and need not be parsed.
CALL: Final = re.compile(rf"({'|'.join(LOGGERS)})\.({'|'.join(METHODS)})\(")
LONG: Final = "x" * 1_000_000


def calls() -> Iterator[tuple[str, ast.Call]]:
    """(place, call) of each line that the product may log."""
    for path in sources(*PRODUCT):
        text = path.read_text(encoding="utf-8")
        if not CALL.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            name = ast.unparse(node.func.value).rpartition(".")[2].lstrip("_")
            if node.func.attr in METHODS and name in LOGGERS:
                yield named(path, node.lineno), node


def template(call: ast.Call) -> str | None:
    """The format of a call; None when it is no constant."""
    texts = [one for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return str(texts[0].value) if texts else None


@pytest.mark.thorough
def test_every_line_of_the_product_is_bounded_with_the_longest_names() -> None:
    """A message that is put together before the call would not be truncated before it is made."""
    log = Log()
    found = 0
    for place, call in calls():
        text = template(call)
        if text is None:
            # RateLimitedLog and the like pass on what their caller gave.
            assert isinstance(call.args[-1], ast.Starred | ast.Name | ast.Call), place
            continue
        found += 1
        arguments: list[object] = []
        for one in text.replace("%%", "").split("%")[1:]:
            kind = one.lstrip("0123456789.+-# ")[0]
            arguments.append(LONG if kind in "sr" else 1)
        log.logger.error(text, *arguments)
    assert found > 250
    lines = log.lines()
    assert len(lines) == found
    assert all(len(line) <= LOG_LINE_BYTES_MAX for line in lines)


def test_nothing_but_the_bounded_lines_writes_to_the_log() -> None:
    own = Path("foundation") / "log_lines.py"
    for path in sources(*PRODUCT):
        if path.parts[-2:] == own.parts:
            continue
        text = path.read_text(encoding="utf-8")
        for word in ("StreamHandler(", "basicConfig(", "FileHandler(", "print_exc(", "logging.Formatter("):
            assert word not in text, f"{path} makes lines that are not bounded: use foundation.log_lines"
