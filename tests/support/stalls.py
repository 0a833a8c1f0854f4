"""A run in which nothing happens is interrupted, and says which tests were at work.

Without that, a fault of the workers or of their scheduling takes all the time that a gate has, and shows nothing. A
test at work has a limit of its own (`watchdog`), which may be longer than that of most.

`tests/conftest.py` registers a watch in the process that hands out tests.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import interrupt_main

import pytest

# Beside the time limit: what a worker takes to end (see `watchdog`), and its successor to collect all tests.
MARGIN_SECONDS = 360.0
# The longest time limit that a test has by a mark.
TEST_SECONDS_MAX = 1_500.0


class StallWatch:
    """A plugin of pytest."""

    def __init__(self, timeout_seconds: float) -> None:
        self._seconds_max = timeout_seconds + MARGIN_SECONDS
        self._at_work_seconds_max = max(timeout_seconds, TEST_SECONDS_MAX) + MARGIN_SECONDS
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

    def pytest_handlecrashitem(self, crashitem: str) -> None:
        self._at_work.pop(crashitem, None)
        self._moved.set()

    def pytest_sessionfinish(self) -> None:
        self._is_over = True
        self._moved.set()
        self._thread.join()

    def _watch(self) -> None:
        waited = self._seconds_max
        while self._moved.wait(waited) or (self._at_work and waited < self._at_work_seconds_max):
            waited = self._seconds_max if self._moved.is_set() else self._at_work_seconds_max
            self._moved.clear()
            if self._is_over:
                return
        names = ", ".join(self._at_work) or "none"
        print(
            f"\nNo test began or ended for {waited:.0f} s or more: the run is interrupted. At work: {names}",
            file=sys.__stderr__,
            flush=True,
        )
        interrupt_main()


def register_watch(config: pytest.Config) -> None:
    """In the process that hands out tests, unless tests have no time limit."""
    given = config.getoption("timeout") or os.environ.get("PYTEST_TIMEOUT") or config.getini("timeout")
    timeout = float(given or 0)
    if timeout and config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(StallWatch(timeout), "stalls")
