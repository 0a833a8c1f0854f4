"""The faults that are in force. The history has when each began and when it ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.chaos.history import FaultReported, HistoryFile, now

Undo = Callable[[], None]


class FaultsInForce:
    """`add` each as it begins, `end_due` often, `end_all` at the end."""

    def __init__(self, history: HistoryFile) -> None:
        self._history = history
        self._entries: list[tuple[float, int, str, Undo]] = []

    def add(self, number: int, what: str, undo: Undo, *, lasts_seconds: float) -> None:
        self._history.add(FaultReported(at=now(), number=number, what=what, has_ended=False))
        self._entries.append((time.monotonic() + lasts_seconds, number, what, undo))

    def end_due(self) -> None:
        """End those that have lasted their time."""
        for entry in [entry for entry in self._entries if entry[0] <= time.monotonic()]:
            self._end(entry)

    def end_all(self) -> None:
        for entry in list(self._entries):
            self._end(entry)

    def _end(self, entry: tuple[float, int, str, Undo]) -> None:
        self._entries.remove(entry)
        _, number, what, undo = entry
        undo()
        self._history.add(FaultReported(at=now(), number=number, what=what, has_ended=True))
