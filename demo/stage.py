"""The tour's means: a broker process of its own, the command line run as a reader would, and how lines look.

Everything lies in one temporary folder and listens on free ports, so nothing that runs already is touched, and nothing
is left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odradek.foundation import interpreter

READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
_IS_PLAIN = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))


def act(title: str) -> None:
    """The heading of a part."""
    print(f"\n{_styled('1;36', f'── {title}')}", flush=True)


def explain(sentence: str) -> None:
    print(textwrap.fill(sentence, width=100), flush=True)


def command_line(text: str) -> None:
    """A command as one could type it."""
    print(_styled("1", f"$ {text}"), flush=True)


def quote(text: str) -> None:
    """Return what a program printed."""
    for line in text.rstrip().splitlines():
        print(_styled("2", f"    {line}"), flush=True)


def _styled(style: str, text: str) -> str:
    return text if _IS_PLAIN else f"\x1b[{style}m{text}\x1b[0m"


class DemoFailedError(Exception):
    """Something did not go as the tour says; the text says what."""


@dataclass(slots=True)
class Broker:
    """`odradek start` on free ports of loopback; the ports stay the same when it is started again."""

    folder: Path
    listen: str = "127.0.0.1:0"
    admin: str = "127.0.0.1:0"
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    def command(self) -> list[str]:
        # A group's first member waits three seconds for others by default, as in Kafka; a tour has less patience.
        impatient = ["--set", "group.initial.rebalance.delay.ms=0"]
        return ["start", "--listen", self.listen, "--admin", self.admin, "--data", str(self.data), *impatient]

    def start(self) -> float:
        """Start, wait for the `ready` line, and keep the ports it names; seconds from exec to it."""
        began = time.perf_counter()
        with (self.folder / "broker.log").open("a") as log:
            self._process = subprocess.Popen(
                interpreter.command("odradek", *self.command()),
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
                env=interpreter.environment(),
            )
        assert self._process.stdout is not None
        watchdog = threading.Timer(READY_SECONDS_MAX, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        took = time.perf_counter() - began
        watchdog.cancel()
        if not line.startswith("ready "):
            raise DemoFailedError(f"the broker did not start:\n{self.log()}")
        words = dict(word.partition("://")[::2] for word in line.split() if "://" in word)
        self.listen, self.admin = words["PLAINTEXT"], words["admin=http"]
        return took

    def log(self) -> str:
        return (self.folder / "broker.log").read_text()

    def end(self, how: signal.Signals) -> float:
        """Send a signal and wait for the end; seconds until then."""
        process = self._process
        assert process is not None, "the broker was not started"
        began = time.perf_counter()
        process.send_signal(how)
        process.wait(STOP_SECONDS_MAX)
        took = time.perf_counter() - began
        if process.stdout is not None:
            process.stdout.close()
        self._process = None
        return took

    def close(self) -> None:
        """End it at once if it runs."""
        if self._process is not None:
            self.end(signal.SIGKILL)

    def metrics(self) -> list[str]:
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return text.splitlines()

    def resident_megabytes(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise DemoFailedError(f"/proc/{self.pid}/status names no VmRSS")


def run(arguments: Sequence[str], *, shortened: Path | None = None) -> None:
    """Run `odradek ARGUMENTS`, show the command and what it printed, with only the name of the folder `shortened`."""

    def short(text: str) -> str:
        return text if shortened is None else text.replace(str(shortened), shortened.name)

    command_line(short(f"odradek {' '.join(arguments)}"))
    done = subprocess.run(
        interpreter.command("odradek", *arguments),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**interpreter.environment(), "COLUMNS": "110", "NO_COLOR": "1"},
    )
    if done.returncode != 0:
        raise DemoFailedError(f"odradek {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    quote(short(done.stdout))
