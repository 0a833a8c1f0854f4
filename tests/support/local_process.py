"""A process beside a test, which is started, stopped or killed, and started again in the same folder."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.support.polling import wait_until

STOP_SECONDS_MAX = 60


class Starting(Protocol):
    def start(self) -> object: ...
    def close(self) -> None: ...


Started = TypeVar("Started", bound=Starting)


@contextmanager
def running(started: Started) -> Iterator[Started]:
    """Start a process or cluster, and close it in the end, also when its start failed."""
    try:
        started.start()
        yield started
    finally:
        started.close()


class LocalProcess:
    """What it prints goes to the end of `log_file`, over all its starts. Subclasses have `start`."""

    def __init__(self, log_file: Path) -> None:
        self.log_file = log_file
        self._process: subprocess.Popen[Any] | None = None

    @property
    def name(self) -> str:
        """What failures call it."""
        return type(self).__name__

    @property
    def process(self) -> subprocess.Popen[Any]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def pids(self) -> Sequence[int]:
        """The processes that serve; as a cluster has it."""
        return [self.pid]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """What it wrote, over all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def spawn(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdout: int | None = None,
    ) -> None:
        """Begin; `stdout` is for another place than the log."""
        assert not self.is_running, f"{self.name} runs already"
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
                env=env,
                cwd=cwd,
            )

    def await_start(self, is_up: Callable[[], bool], *, seconds_max: float) -> None:
        """Wait until it is up; it is ended when it is not in time."""

        def is_ready() -> bool:
            is_ready = is_up()
            assert is_ready or self.is_running, f"{self.name} ended\n{self.log()[-6000:]}"
            return is_ready

        try:
            wait_until(
                f"{self.name} is up", is_ready, seconds_max=seconds_max, pause_seconds=0.01, more=self.log
            )
        except AssertionError:
            self.close()
            raise

    def stop(self, *, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM and wait; the exit code."""
        return self._end(signal.SIGTERM, seconds_max=seconds_max)

    def kill(self) -> int:
        """SIGKILL and wait: what a crash of the process looks like."""
        return self._end(signal.SIGKILL)

    def abort(self) -> int:
        """SIGABRT and wait, as after an assertion in a library: the stacks of all threads go into the log."""
        return self._end(signal.SIGABRT)

    def start(self) -> object:
        """Start, and wait until it serves."""
        raise NotImplementedError

    def restart(self, *, crash: bool = False) -> None:
        """Stop, or kill when `crash`, and start again."""
        _ = self.kill() if crash else self.stop()
        self.start()

    def close(self) -> None:
        """End the process if it runs; for fixtures."""
        if self.is_running:
            self.kill()

    def _end(self, how: signal.Signals, *, seconds_max: float = STOP_SECONDS_MAX) -> int:
        process = self.process
        process.send_signal(how)
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"no exit {seconds_max} s after {how.name}\n{self.log()[-4000:]}") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()
        self._process = None
        return code
