"""A progress bar on stderr, if that is a terminal; otherwise nothing, at no cost. rich is imported only for a bar that
is shown.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from odradek.cli.shared import late

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

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
        self._count = 0
        self._done = 0
        self._shown_at = 0.0
        self._bar: Progress | None = None
        self._row: TaskID | None = None

    def __enter__(self) -> Self:
        if self._is_shown and sys.stderr.isatty():
            self._bar = late.Progress(
                late.TextColumn("{task.description}"),
                late.BarColumn(),
                *self._counts(),
                late.TimeElapsedColumn(),
                console=late.Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._row = self._bar.add_task(self._title, total=self._total, amount=self._amount())
        return self

    def _counts(self) -> list[ProgressColumn]:
        if self._unit == "bytes" and self._total is not None:
            return [late.DownloadColumn(binary_units=True), late.TaskProgressColumn()]
        return [late.TextColumn("{task.fields[amount]}")]

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._show()
            self._bar.stop()

    def set_total(self, total: int) -> None:
        """Set the total, once it is known."""
        self._total = total
        self._show()

    def advance(self, count: int, *, part: int | None = None) -> None:
        """Count `count` more as done. `part` is their share of the total, if the total counts something else."""
        self._count += count
        self._done += count if part is None else part
        if self._bar is None:
            return
        now = time.monotonic()
        if now - self._shown_at >= _REFRESH_SECONDS:
            self._shown_at = now
            self._show()

    def _show(self) -> None:
        if self._bar is not None and self._row is not None:
            self._bar.update(self._row, completed=self._done, total=self._total, amount=self._amount())

    def _amount(self) -> str:
        share = f"{100 * self._done / self._total:3.0f} %  " if self._total else ""
        return f"{share}{self._count:,} {self._unit}"
