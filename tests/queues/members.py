"""The eight members of the queue: processes of three clients, which are killed, stopped, and started again.

Each life of a member has a name and a log of its own. What a member was given before it was killed is not its
successor's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.chaos.history import now
from tests.queues.check import Stop
from tests.queues.member_log import Failed, MemberEvent, read_member_log
from tests.support.broker_process import CHECKOUT
from tests.support.java import (
    KAFKA_NEWEST_VERSION,
    JavaUnavailableError,
    java_arguments,
    java_command,
    java_environment,
    kafka_classpath,
)

OWN, JAVA, LIBRDKAFKA = "own", "java", "librdkafka"
KINDS: Final = (OWN, JAVA, LIBRDKAFKA, OWN, JAVA, LIBRDKAFKA, OWN, JAVA)
FINISH_SECONDS_MAX: Final = 180.0
WORK_SECONDS: Final = 2.0
_MODULES: Final = {OWN: "tests.queues.own_member", LIBRDKAFKA: "tests.queues.librdkafka_member"}
_SOURCE: Final = Path(__file__).with_name("ShareMember.java")


def compile_java_member(folder: Path) -> str:
    """The class path of the member with Kafka's client, compiled into `folder`. Raises JavaUnavailableError."""
    classpath = kafka_classpath(KAFKA_NEWEST_VERSION)
    compiler = shutil.which("javac") or str(Path(java_command()).resolve().with_name("javac"))
    if not Path(compiler).exists():
        raise JavaUnavailableError("there is no javac on this machine: install a JDK of 17 or newer")
    subprocess.run([compiler, "-d", str(folder), "-cp", classpath, str(_SOURCE)], check=True)
    return f"{folder}:{classpath}"


class _Life:
    """One process of a member."""

    def __init__(self, name: str, kind: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.kind = kind
        self.process = process
        self.log = log
        self.stopped_at: float | None = None


class Members:
    """Make it, `start`, hurt it, `finish`; `close` in any case."""

    def __init__(self, folder: Path, *, bootstrap: str, group: str, topic: str) -> None:
        self._folder = folder
        self._common = {"bootstrap": bootstrap, "group": group, "topic": topic, "work_seconds": WORK_SECONDS}
        self._java_classpath = compile_java_member(folder)
        self._lives: dict[int, _Life] = {}
        self._logs: dict[str, tuple[str, Path]] = {}
        self.stops: list[Stop] = []
        self.kills = 0
        self.ended_by_themselves: list[str] = []

    def start(self) -> None:
        for number in range(len(KINDS)):
            self._start(number)

    def _start(self, number: int) -> None:
        kind = KINDS[number]
        name = f"{kind}-{number}-{len(self._logs)}"
        log = self._folder / f"{name}.jsonl"
        log.touch()
        # All variants: with the next fetch or at once, whole batches or so many records.
        options = {
            **self._common,
            "member": name,
            "log": str(log),
            "commits": number % 2 == 0,
            "is_strict": number % 4 == 3,
            "records_max": 500 if number % 4 == 0 else 300,
        }
        with (self._folder / f"{name}.log").open("ab") as said:
            process = subprocess.Popen(
                self._command(kind, options),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                cwd=CHECKOUT,
                env={**os.environ, **java_environment()},
            )
        self._lives[number] = _Life(name, kind, process, log)
        self._logs[name] = kind, log

    def _command(self, kind: str, options: Mapping[str, Any]) -> list[str]:
        if kind != JAVA:
            return [sys.executable, "-m", _MODULES[kind], json.dumps(options)]
        mode = "record_limit" if options["is_strict"] else "batch_optimized"
        arguments = [
            f"{key}={str(value).lower() if value in (True, False) else value}"
            for key, value in options.items()
        ]
        return java_arguments(
            "ShareMember", [*arguments, f"acquire_mode={mode}"], classpath=self._java_classpath, heap="96m"
        )

    # --- faults ------------------------------------------------------------------------------------------------

    def kill(self, choice: int) -> tuple[str, Callable[[], None]]:
        """SIGKILL; what starts another one."""
        number = choice % len(KINDS)
        life = self._lives[number]
        self._end_stop(life)
        life.process.kill()
        life.process.wait()
        self._close_input(life)
        self.kills += 1

        def undo() -> None:
            if self._lives[number] is life:
                self._start(number)

        return f"kill -9 of {life.name}", undo

    def stop(self, choice: int) -> tuple[str, Callable[[], None]]:
        """SIGSTOP; what lets it continue."""
        life = self._lives[choice % len(KINDS)]
        if life.process.poll() is None and life.stopped_at is None:
            life.stopped_at = now()
            life.process.send_signal(signal.SIGSTOP)
        return f"SIGSTOP of {life.name}", lambda: self._end_stop(life)

    def _end_stop(self, life: _Life) -> None:
        if life.stopped_at is not None:
            if life.process.poll() is None:
                life.process.send_signal(signal.SIGCONT)
            self.stops.append(Stop(life.name, life.stopped_at, now()))
            life.stopped_at = None

    def look(self) -> None:
        """Note members that ended by themselves, and start them again."""
        for number, life in list(self._lives.items()):
            code = life.process.poll()
            if code is not None and code != -signal.SIGKILL:
                said = (self._folder / f"{life.name}.log").read_text(errors="replace")[-1500:]
                self.ended_by_themselves.append(f"{life.name} ended with {code}: {said}")
                self._close_input(life)
                self._start(number)

    # --- its end -----------------------------------------------------------------------------------------------

    def finish(self) -> list[str]:
        """Let all leave the group; those that did not."""
        for life in self._lives.values():
            self._close_input(life)
        failed = []
        for life in self._lives.values():
            try:
                code = life.process.wait(FINISH_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                failed.append(f"{life.name} does not end")
            else:
                if code:
                    failed.append(f"{life.name} ended with {code}")
        return failed

    def close(self) -> None:
        for life in self._lives.values():
            if life.process.poll() is None:
                life.process.kill()
            life.process.wait()
            self._close_input(life)

    @staticmethod
    def _close_input(life: _Life) -> None:
        assert life.process.stdin is not None
        life.process.stdin.close()

    def read_logs(self) -> dict[str, list[MemberEvent]]:
        return {name: list(read_member_log(log)) for name, (_, log) in self._logs.items()}

    def count_failures(self) -> Iterator[tuple[str, str, int]]:
        """(client, error, how often): what members' clients raised, and why members ended."""
        counts: dict[tuple[str, str], int] = {}
        for said in self.ended_by_themselves:
            key = said.partition("-")[0], " ".join(said.split())[:300]
            counts[key] = counts.get(key, 0) + 1
        for kind, log in self._logs.values():
            for event in read_member_log(log):
                if isinstance(event, Failed):
                    key = kind, event.error.partition(":")[0]
                    counts[key] = counts.get(key, 0) + 1
        for (kind, error), count in sorted(counts.items()):
            yield kind, error, count
