"""Pages that passed are not run again until they change, the command lines they show, or what runs them.

A stamp below `.cache/pages` is the digest of all of these at the last run that passed. CI runs every page, and so does
`ODRADEK_TESTS=thorough`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.examples import IS_THOROUGH
from tests.support.page_folder import REPOSITORY
from tests.support.peers import in_ci

_STAMPS: Final = REPOSITORY / ".cache" / "pages"
_COMMAND_LINES: Final = (
    "broker/odradek/cli/**/*.py",
    "pipeline/odradek_pipeline/cli/**/*.py",
    "pipeline/odradek_pipeline/loading/**/*.py",
    "pipeline/odradek_pipeline/audit/commands/**/*.py",
    "pipeline/odradek_pipeline/dead_letters/commands/**/*.py",
    "pipeline/odradek_pipeline/settings/**/*.py",
)
_RUNNER: Final = (
    "tests/docs/test_p*.py",
    "tests/support/page*.py",
    "tests/support/alone_environment.py",
    "*/pyproject.toml",
    "pyproject.toml",
    "tests/support/kafka_*.py",
    "tests/support/spark_*.py",
    "tests/support/command_line.py",
    "tests/support/private_network.py",
    "tests/support/python_session.py",
)


@contextmanager
def run_if_changed(page: str, *, part: str = "") -> Iterator[None]:
    """Skip the test of a page where nothing changed since it passed; else remember it when the block passes."""
    stamp = _STAMPS / f"{page}{part and '-'}{part}".replace("/", "-")
    digest = hashlib.sha256((REPOSITORY / page).read_bytes() + _digest_of_programs().encode()).hexdigest()
    is_unchanged = stamp.exists() and stamp.read_text() == digest
    if is_unchanged and not IS_THOROUGH and not in_ci():
        pytest.skip(
            f"{page} passed, and neither it nor the command line nor the page runner has changed since: "
            "ODRADEK_TESTS=thorough runs it all the same"
        )
    yield
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest)


@cache
def _digest_of_programs() -> str:
    found = hashlib.sha256()
    for path in sorted(_paths()):
        found.update(f"{path.relative_to(REPOSITORY)} {path.stat().st_size}\n".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _paths() -> Iterator[Path]:
    for pattern in (*_COMMAND_LINES, *_RUNNER):
        yield from REPOSITORY.glob(pattern)
