"""Whether the watches live. A watch that died is silent, and so is one while nothing changes.

A list of all objects, as the resync makes, shows the difference. An object newer than all that the watch has brought
must come through it within a while. Versions are numbers that grow (for one kind, on one API server).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from odradek.foundation.metrics import Sample
from odradek_operator.foundation.metrics import WATCH_BEHIND_SECONDS

BEHIND_SECONDS_MAX: Final = 60.0


class WatchStates:
    """The state of each kind's watch. `time` gives seconds that only grow."""

    def __init__(self, kinds: Iterable[str], time: Callable[[], float]) -> None:
        self._time = time
        self._brought = dict.fromkeys(kinds, 0)
        self._owed: dict[str, tuple[int, float]] = {}
        self._listed: dict[str, tuple[int, float]] = {}

    def note_watched(self, kind: str, version: str) -> None:
        """The watch has brought an object of this resourceVersion."""
        self._brought[kind] = max(self._brought[kind], _number(version))
        owed = self._owed.get(kind)
        if owed is not None and owed[0] <= self._brought[kind]:
            del self._owed[kind]
            # A later list may have shown more, while this was still on its way.
            if self._listed[kind][0] > self._brought[kind]:
                self._owed[kind] = self._listed[kind]

    def note_listed(self, kind: str, versions: Iterable[str]) -> None:
        """A list has shown objects of these resourceVersions."""
        newest = max(map(_number, versions), default=0)
        # What is owed already keeps its time: a kind that changes all the while must not hide a dead watch.
        if newest > self._brought[kind]:
            self._listed[kind] = (newest, self._time())
            self._owed.setdefault(kind, self._listed[kind])

    def find_dead_watch(self) -> str | None:
        """The problem, or None."""
        for kind, seconds in self._seconds_behind().items():
            if seconds > BEHIND_SECONDS_MAX:
                return f"the watch of {kind} has brought nothing for {seconds:.0f} s, while a list shows newer objects"
        return None

    def samples(self) -> Iterator[Sample]:
        behind = self._seconds_behind()
        for kind in self._brought:
            yield WATCH_BEHIND_SECONDS.sample(behind.get(kind, 0.0), kind)

    def _seconds_behind(self) -> dict[str, float]:
        now = self._time()
        return {kind: now - since for kind, (_, since) in self._owed.items()}


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
