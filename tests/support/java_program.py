"""A Java program that runs beside a test: it is started, its lines are waited for, it is stopped or killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.class_archives import writing_options
from tests.support.java import class_archive, java_arguments, java_environment
from tests.support.local_process import LocalProcess
from tests.support.polling import wait_until

STOP_SECONDS_MAX = 120.0


class JavaProgram(LocalProcess):
    """One process. What it prints, and its log from `warn` on, goes to `output`, which a new start appends to."""

    def __init__(
        self,
        output: Path,
        main_class: str,
        arguments: Sequence[str],
        *,
        classpath: str,
        heap: str = "256m",
        keeps_classes: bool = False,
    ) -> None:
        """With `keeps_classes` its virtual machine keeps the classes it parsed, for later starts of the class path.

        It does so when it ends by itself or by SIGTERM, and no run has yet.
        """
        super().__init__(output)
        self._main_class = main_class
        self._arguments = arguments
        self._classpath = classpath
        self._heap = heap
        self._keeps_classes = keeps_classes

    def start(self) -> int:
        """Start it; where its own lines begin, for `wait_for`. Raises JavaUnavailableError."""
        begin = len(self.said())
        command = java_arguments(
            self._main_class,
            self._arguments,
            classpath=self._classpath,
            heap=self._heap,
            options=self._archiving(),
        )
        self.spawn(command, env=java_environment(), cwd=self.log_file.parent)
        return begin

    def _archiving(self) -> Sequence[str]:
        if not self._keeps_classes or class_archive(self._classpath).exists():
            return ()
        class_archive(self._classpath).parent.mkdir(parents=True, exist_ok=True)
        return writing_options(self._written)

    @property
    def _written(self) -> Path:
        return class_archive(self._classpath).with_suffix(f".{os.getpid()}")

    def said(self) -> str:
        return self.log()

    def wait_for(self, pattern: str, *, since: int = 0, seconds_max: float) -> None:
        """Until a line that `pattern` matches stands after the first `since` characters of the output."""

        def is_said() -> object:
            found = re.search(pattern, self.said()[since:])
            assert found or self.is_running, (
                f"{self._main_class} ended without {pattern!r}:\n{self.said()[-4000:]}"
            )
            return found

        wait_until(f"{pattern!r} of {self._main_class}", is_said, seconds_max=seconds_max, more=self.said)

    def wait(self, *, seconds_max: float) -> int:
        """Until it ends by itself; its exit code."""
        try:
            code = self.process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self._main_class} did not end in {seconds_max:g} s:\n{self.said()[-4000:]}"
            ) from None
        if self._written.exists():
            self._written.replace(class_archive(self._classpath))
        return code

    def stop(self, *, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM, and wait until it has ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds_max=seconds_max)
