"""Client processes of a round: started together, and ended cleanly by closing their standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, Final

from tests.support.broker_process import CHECKOUT
from tests.support.polling import SECONDS_MAX

READY_SECONDS_MAX: Final = 180.0


class Worker:
    """`python -m MODULE OPTIONS`. What it writes to standard error goes to a file."""

    def __init__(self, module: str, options: dict[str, Any], *, log: Path) -> None:
        self.module = module
        self._log = log
        self._is_ready = threading.Event()
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=CHECKOUT,
                env={**os.environ, "PYTHONPATH": f"{CHECKOUT / 'broker'}:{CHECKOUT}"},
            )
        assert self._process.stdout is not None
        self._thread = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                if line.startswith("ready"):
                    self._is_ready.set()

    def await_ready(self) -> None:
        assert self._is_ready.wait(READY_SECONDS_MAX), f"{self.module} did not begin\n{self._said()}"

    def check_alive(self) -> None:
        """Raises AssertionError with its last words when it ended by itself."""
        code = self._process.poll()
        assert code is None, f"{self.module} ended by itself with {code}\n{self._said()}"

    def finish(self, *, seconds_max: float) -> bool:
        """Let it end cleanly; returns whether it did in time. Raises AssertionError when it failed."""
        self._close_input()
        try:
            code = self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            return False
        assert code == 0, f"{self.module} ended with {code}\n{self._said()}"
        return True

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._close_input()
        self._thread.join(SECONDS_MAX)

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]
