"""A progress bar on stderr, when a person watches it there; otherwise nothing, at no cost.

rich is imported only for a bar that is really shown.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

_REFRESH_SECONDS = 0.1


class ProgressBar:
    """Counts work done; `with ProgressBar("Reading", total=n) as bar: bar.advance(k)`."""

    def __init__(
        self, title: str, *, total: int | None, unit: str = "records", is_shown: bool = True
    ) -> None:
        self._title = title
        self._total = total
        self._unit = unit
        self._is_shown = is_shown
        self._done = 0
        self._shown_at = 0.0
        self._bar: Any = None
        self._row: Any = None

    def __enter__(self) -> ProgressBar:
        if self._is_shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                *self._counts(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._row = self._bar.add_task(self._title, total=self._total)
        return self

    def _counts(self) -> list[Any]:
        from rich.progress import DownloadColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn

        if self._unit == "bytes" and self._total is not None:
            return [DownloadColumn(binary_units=True), TaskProgressColumn()]
        if self._total is None:
            return [TextColumn("{task.completed:,} " + self._unit)]
        return [MofNCompleteColumn(), TextColumn(self._unit)]

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.update(self._row, completed=self._done)
            self._bar.stop()

    def advance(self, count: int) -> None:
        """`count` more are done."""
        self._done += count
        if self._bar is None:
            return
        now = time.monotonic()
        if now - self._shown_at >= _REFRESH_SECONDS:
            self._shown_at = now
            self._bar.update(self._row, completed=self._done)
