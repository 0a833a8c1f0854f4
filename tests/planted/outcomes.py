"""A plugin of pytest: writes the name of each test that fails, and of each that passes, to the file of OUTCOMES."""

from __future__ import annotations

import os

import pytest


class _Outcomes:
    def __init__(self, path: str) -> None:
        self._path = path

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note("failed", report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note("failed", report.nodeid)
        elif report.passed and report.when == "call":
            self._note("passed", report.nodeid)

    def _note(self, outcome: str, name: str) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{outcome}\t{name}\n")


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("OUTCOMES")
    # A worker's reports go to the process that started it.
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(path))
