"""The measurement of the console with small sizes: each page is found usable, and the costs have their numbers."""

from __future__ import annotations

import json

import pytest

from bench import console
from tests.support.chromium import find_chromium

pytestmark = [pytest.mark.integration, pytest.mark.thorough]


def test_each_page_is_timed_and_what_is_open_has_its_cost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_chromium() is None:
        pytest.skip("there is no Chromium on this machine: `apt-get install chromium` brings it")
    monkeypatch.setattr(console, "_LOOK_SECONDS", 0)
    assert console.measure_console(partitions=2, groups=1, minutes=0.005, is_json=True) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    timed = {(row["page"], row["opened"]): row["seconds"] for row in rows if "opened" in row}
    assert len(timed) == 12 and all(seconds > 0 for seconds in timed.values())
    assert [row["page"] for row in rows if "minutes open" in row] == ["overview", "topics"]


def test_without_a_browser_it_says_what_brings_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "find_chromium", lambda: None)
    assert console.measure_console(partitions=1, groups=1, minutes=0, is_json=True) == 2
    assert "apt-get install chromium" in capsys.readouterr().err
