"""The reference page says what the commands are."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.cli.reference import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


@pytest.mark.generated
def test_the_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == reference(), "run: python -m odradek.cli.reference > docs/reference/cli.md"


def test_every_verb_is_on_it() -> None:
    page = reference()
    for verb in ("start", "topics create", "groups reset-offsets", "consume", "dump-log", "perf produce"):
        assert f"## odradek {verb}\n" in page
    assert "| 141 |" in page
