"""What a run shows at a terminal: tables whose cells are whole, however narrow it is."""

from __future__ import annotations

import pytest

from odradek_pipeline.cli.terminal_console import TerminalConsole
from odradek_pipeline.work.command import Summary


def shown(capsys: pytest.CaptureFixture[str], summary: Summary) -> str:
    with TerminalConsole() as console:
        console.show_summary(summary)
    return capsys.readouterr().out


def test_an_id_is_whole_at_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    run, ranges = "20261128T112345-0011223344556677", ", ".join(f"orders-{n} 0 to 1000000" for n in range(20))
    rows = [{"number": 1, "run": run, "kind": "load", "committed": "2026-11-28T11:23:45Z", "ranges": ranges}]
    facts = {"output": "/a/folder/with/a/long/name/that/does/not/fit/into/forty/columns", "count": 1}
    lines = shown(capsys, Summary("runs of a table", facts, rows, rows_name="runs")).splitlines()
    (line,) = [one for one in lines if run in one]
    assert ranges in line
    assert any(str(facts["output"]) in one for one in lines)
    assert max(map(len, lines)) < 1000, "lines are no longer than what is in them"


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Summary("nothing", {"count": 0}, (), rows_name="dead_letters")).endswith(
        "no dead letters\n"
    )
