"""The comparison with kcat runs from end to end, with small files."""

from __future__ import annotations

import shutil

import pytest

from bench.command_line import TINY, compare_command_lines
from bench.questions import COMMAND_LINE_QUESTIONS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]


@pytest.mark.thorough
def test_both_tools_bring_every_file_back() -> None:
    answers = compare_command_lines(rounds=1, sizes=TINY, disk=None).listed()
    assert [answer.question.name for answer in answers] == list(COMMAND_LINE_QUESTIONS)
    for answer in answers:
        assert {tool: len(seconds) for tool, seconds in answer.rounds.items()} == {"odradek": 1, "kcat": 1}
