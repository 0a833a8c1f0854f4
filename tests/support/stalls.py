"""A run in which no test begins or ends for longer than any test may take is interrupted, and says what was at work.

Without that, a fault of the workers or of their scheduling takes all the time that a gate has, and shows nothing.

`tests/conftest.py` registers a watch in the process that hands out tests.
"""

from __future__ import annotations

import sys
import threading
from _thread import interrupt_main

import pytest

# Beside the time limit: what a worker takes to end (see `watchdog`), and its successor to collect all tests.
MARGIN_SECONDS = 360.0


class StallWatch:
    """A plugin of pytest."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._at_work: dict[str, None] = {}
        self._moved = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._watch, name="stalls", daemon=True)

    def pytest_sessionstart(self) -> None:
        self._thread.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._at_work[nodeid] = None
        self._moved.set()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._at_work.pop(nodeid, None)
        self._moved.set()

    def pytest_sessionfinish(self) -> None:
        self._is_over = True
        self._moved.set()
        self._thread.join()

    def _watch(self) -> None:
        while self._moved.wait(self._seconds_max):
            self._moved.clear()
            if self._is_over:
                return
        names = ", ".join(self._at_work) or "none"
        said = f"\nNo test began or ended for {self._seconds_max:.0f} s: the run is interrupted. At work: {names}"
        print(said, file=sys.__stderr__, flush=True)
        interrupt_main()


def register_watch(config: pytest.Config) -> None:
    """In the process that hands out tests, unless tests have no time limit."""
    timeout = float(config.getoption("timeout") or config.getini("timeout") or 0)
    if timeout and config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(StallWatch(timeout + MARGIN_SECONDS), "stalls")
