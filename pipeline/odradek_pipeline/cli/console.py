"""A run's output: lines of JSON, or at a terminal bars and a table (`terminal_console`).

Notices and errors go to standard error.

JSON lines are for programs: one object for each step, with `event`, and the summary last, with `event` of `summary`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from odradek_pipeline.runs.steps import Steps
from odradek_pipeline.work.command import Summary

if TYPE_CHECKING:
    from odradek_pipeline.cli.terminal_console import TerminalConsole


def console_for(report: str) -> JsonConsole | TerminalConsole:
    if report == "table" or (report == "auto" and sys.stdout.isatty()):
        # Programs, and Spark's drivers in a cluster, have no use for rich.
        from odradek_pipeline.cli.terminal_console import TerminalConsole

        return TerminalConsole()
    return JsonConsole()


class JsonConsole:
    """One JSON object a line, on standard output."""

    @property
    def steps(self) -> Steps:
        return self._show_step

    def __enter__(self) -> JsonConsole:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def watch(self, spark: Any) -> None:
        """Programs have the summary; the progress of tasks is for people."""

    def notice(self, text: str) -> None:
        print(f"odradek-pipeline: {text}", file=sys.stderr, flush=True)

    def show_summary(self, made: Summary) -> None:
        listed = {made.rows_name: list(made.rows)} if made.rows_name else {}
        self._write_line("summary", {**made.facts, **listed})

    def _show_step(self, name: str, /, **figures: object) -> None:
        self._write_line(name, figures)

    def _write_line(self, event: str, content: Mapping[str, Any]) -> None:
        print(json.dumps({"event": event, **content}, default=str), flush=True)
