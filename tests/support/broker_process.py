"""An Odradek broker as users run it: a process on loopback which tests stop, kill and start again.

The folder and the port stay the same over restarts, so clients find the broker again. A `Broker` here and a
`kafka_peer.KafkaPeer` answer the same calls: a test that differs between them has found something.

Left out: anything inside the process. Faults within one process belong to the simulation.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parents[2]
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60


# Below the ports that the kernel gives to outgoing connections, and those that Kubernetes gives to Services.
_PORTS = range(15_000, 30_000)


def free_port() -> int:
    """A port of 127.0.0.1 that is free, and stays so until a process takes it.

    A port that the kernel chooses may be an outgoing connection's before the process that it is for listens. So ports
    are counted in a file, which all test processes of this machine share.
    """
    with Path(tempfile.gettempdir(), f"odradek-tests-port-{os.getuid()}").open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or _PORTS.start)
        for _ in _PORTS:
            port = port + 1 if port + 1 in _PORTS else _PORTS.start
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                break
        else:
            raise OSError(f"no port of 127.0.0.1 from {_PORTS.start} to {_PORTS.stop - 1} is free")
        counter.truncate(0)
        counter.write(str(port))
        return port


class Broker:
    """`odradek start` on 127.0.0.1; `settings` are Kafka's keys, given by `--set`."""

    name = "odradek"

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        wrapper: Sequence[str] = (),
        arguments: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = port or free_port()
        self.settings = dict(settings or {})
        self.arguments = list(arguments)
        self._wrapper = list(wrapper)
        self._process: subprocess.Popen[str] | None = None
        self._log = folder / "broker.log"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def pids(self) -> Sequence[int]:
        """The processes that serve; as a cluster has it."""
        return [self.pid]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        command = [*self._wrapper, sys.executable, "-m", "odradek", "start"]
        command += ["--listen", self.bootstrap, "--data", str(self.data)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command + self.arguments

    def start(self) -> float:
        """Start and wait for the `ready` line; seconds from exec to it."""
        assert not self.is_running, "the broker runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")}
        started = time.perf_counter()
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
        _await_line(self._process, "ready", self.log)
        return time.perf_counter() - started

    def log(self) -> str:
        """What the broker wrote to standard error, over all its starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def stop(self, *, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM and wait; the exit code."""
        return self._end(signal.SIGTERM, seconds_max=seconds_max)

    def kill(self) -> int:
        """SIGKILL and wait: what a crash of the process looks like."""
        return self._end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)

    def abort(self) -> int:
        """SIGABRT and wait, as after an assertion in a library: the stacks of all threads go into the log."""
        return self._end(signal.SIGABRT, seconds_max=STOP_SECONDS_MAX)

    def restart(self, *, crash: bool = False) -> None:
        """Stop, or kill when `crash`, and start again on the same port and folder."""
        _ = self.kill() if crash else self.stop()
        self.start()

    def close(self) -> None:
        """End the process if it runs; for fixtures."""
        if self.is_running:
            self.kill()

    def _end(self, how: signal.Signals, *, seconds_max: float) -> int:
        process = self._process
        assert process is not None, "the broker was not started"
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


def _await_line(process: subprocess.Popen[str], beginning: str, log: object) -> None:
    """Wait until the process prints a line that starts with `beginning`, then let a thread read on."""
    assert process.stdout is not None
    watchdog = threading.Timer(READY_SECONDS_MAX, process.kill)
    watchdog.start()
    try:
        printed: list[str] = []
        for line in process.stdout:
            if line.startswith(beginning):
                # The rest is discarded: without a reader a full pipe would stop the process.
                threading.Thread(target=_drain, args=(process.stdout,), daemon=True).start()
                return
            printed.append(line)
        process.wait()
        process.stdout.close()
        said = log() if callable(log) else ""
        raise AssertionError(
            f"the broker ended ({process.returncode}) before it was ready\n{''.join(printed)}{said[-6000:]}"
        )
    finally:
        watchdog.cancel()


def _drain(stream: IO[str]) -> None:
    try:
        for _ in stream:
            pass
    except ValueError:
        return  # closed by stop(): there is no more to read
