"""The processes of the cluster under test: started without waiting, killed, paused, started again when they give up.

A process that ends by itself is restarted after a moment, as Kubernetes would restart it. The history records it with
the fault that explains it, if there is one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from tests.chaos.history import Event, ProcessEnded, now
from tests.support.broker_process import CHECKOUT

STOP_SECONDS_MAX: Final = 60.0
RESTART_SECONDS: Final = 1.0


class Process:
    """One named process. `environment` adds to this process's own; everything it says goes to `log`."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, on_started: Callable[[str, int], None]
    ) -> None:
        self.name = name
        self.log = log
        self.command = list(command)
        self.is_ready = threading.Event()
        self.is_paused = False
        self.should_run = False
        self.excuse = ""
        self.excused_until = 0.0
        """Until when it may end by itself, and why, on the monotonic clock."""
        self._on_started = on_started
        self._process: subprocess.Popen[str] | None = None
        self._ending: subprocess.Popen[str] | None = None
        # Faults that overlap may want to end and to start it at once.
        self._lock = threading.RLock()
        self._ended_at = 0.0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs; `is_ready` is set when it says so."""
        with self._lock:
            self.should_run = True
            if self.is_running:
                self.go_on()
            else:
                self._start()

    def _start(self) -> None:
        self.is_paused = False
        self.is_ready = threading.Event()
        with self.log.open("a") as log:
            log.write(f"--- {self.name} starts at {now():.3f}\n")
            log.flush()
            self._process = subprocess.Popen(
                self.command,
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "broker"), str(CHECKOUT)))},
            )
        assert self._process.stdout is not None
        threading.Thread(
            target=_read, args=(self._process.stdout, self.is_ready), name=self.name, daemon=True
        ).start()
        self._on_started(self.name, self._process.pid)

    def kill(self) -> None:
        """SIGKILL, also of one that is paused."""
        with self._lock:
            self.should_run = False
            self._ending = self._process
            self._signal(signal.SIGKILL)
            if self._process is not None:
                self._wait(self._process)

    def stop(self) -> int | None:
        """SIGTERM and wait; the exit code, None where it had ended before. Raises AssertionError when it does not
        end."""
        with self._lock:
            self.should_run = False
            process = self._process
            if process is None or process.poll() is not None:
                return None
            self.go_on()
            # A second caller waits for the same end: at a second signal the process would end at once, uncleanly.
            if self._ending is not process:
                self._ending = process
                self._signal(signal.SIGTERM)
        return self._wait(process)  # it may take long, and may be killed while it waits

    def pause(self) -> None:
        self.is_paused = True
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.is_paused = False
        self._signal(signal.SIGCONT)

    def look(self) -> Event | None:
        """Start it again where it should run and does not; the event of its end."""
        with self._lock:
            return self._look()

    def _look(self) -> Event | None:
        if not self.should_run or self.is_running or self._process is None:
            return None
        if self._process is self._ending:
            self._start()
            return None
        if not self._ended_at:
            self._ended_at = time.monotonic()
            said = [line.strip() for line in self.said().splitlines() if line.strip()][-3:]
            return ProcessEnded(
                at=now(),
                process=self.name,
                exit_code=self._process.returncode,
                said=" / ".join(said)[-600:],
                excuse=self.excuse if time.monotonic() < self.excused_until else "",
            )
        if time.monotonic() > self._ended_at + RESTART_SECONDS:
            self._ended_at = 0.0
            self._start()
        return None

    def said(self) -> str:
        """All it wrote to standard error, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _wait(self, process: subprocess.Popen[str]) -> int:
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"{self.name} did not end in {STOP_SECONDS_MAX:g} s\n{self.said()[-2000:]}"
            ) from None


def _read(stream: IO[str], is_ready: threading.Event) -> None:
    with stream:
        for line in stream:
            if line.startswith("ready"):
                is_ready.set()


def odradek(verb: str, *arguments: str) -> list[str]:
    """The command `odradek`, which says a little more in its log."""
    return [sys.executable, "-m", "tests.chaos.epoch_ends", verb, *arguments]
