"""Kafka's TransactionalMessageCopier as a process that tests kill and start again, and what came of its copying.

A copier reads a topic as a member of its group. It writes each record to the same partition of another topic, in
transactions that have the offsets too; a third of them it aborts. It ends by itself once its partitions are read.

Left out: brokers, and when a copier is to be killed (`tests.compat.three_brokers.copies`).
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from tests.support.java import java_arguments, java_environment, kafka_classpath
from tests.support.plain_reads import is_end

_COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
_STOP_SECONDS_MAX: Final = 60
READ_SECONDS_MAX: Final = 60.0


class Copier:
    """One transactional id. `version` is that of Kafka's tools: 4.1 speaks TV2, 3.9 speaks TV1."""

    def __init__(
        self, folder: Path, bootstrap: str, name: str, arguments: Sequence[str], *, version: str
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._bootstrap = bootstrap
        self._arguments = list(arguments)
        self._version = version
        self._said = folder / f"{name}.out"
        self._errors = folder / f"{name}.err"
        self._process: subprocess.Popen[bytes] | None = None
        self.failures: list[str] = []
        """What it said when it ended by itself, and not well."""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it. It continues where its group is, after its last instance's transaction is aborted."""
        assert not self.is_running, f"the copier {self.name} runs already"
        arguments = ["--broker-list", self._bootstrap, "--transactional-id", self.name, *self._arguments]
        with self._said.open("ab") as said, self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                java_arguments(_COPIER, arguments, classpath=kafka_classpath(self._version)),
                stdout=said,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                env=java_environment(),
            )

    def note_end(self) -> None:
        """Keep what it said if it ended by itself with a failure. Its next start forgets the exit."""
        if self._process is not None and self._process.poll() not in (None, 0):
            lines = self._errors.read_text(errors="replace").splitlines()
            self.failures.append("\n".join(lines[-40:]))
            self._process = None

    def kill(self) -> None:
        """SIGKILL: its transaction stays open."""
        self._end(is_kill=True)

    def stop(self) -> None:
        """SIGTERM: it ends its loop and closes its clients."""
        self._end(is_kill=False)

    def _end(self, *, is_kill: bool) -> None:
        self.note_end()
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.kill() if is_kill else process.terminate()
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.failures.append(f"it did not end within {_STOP_SECONDS_MAX} s of SIGTERM")

    def events(self) -> list[Any]:
        """The lines of JSON that it has printed over all its starts; a kill may cut off the last."""
        found = []
        for line in self._said.read_text(errors="replace").splitlines() if self._said.exists() else ():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found


@dataclass(frozen=True, slots=True)
class Log:
    """A topic as readers see it, by partition."""

    values: Mapping[int, Sequence[bytes]]
    ends: Mapping[int, int]
    """The offset behind the last one that a reader gets to."""


def read_to_the_end(bootstrap: str, topic: str, partitions: int, *, isolation: str) -> Log:
    """All records of `topic` up to where a reader of this isolation level gets. Fails when a partition does not end."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    values: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    ends: dict[int, int] = {}
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        reader.assign([TopicPartition(topic, number, 0) for number in values])
        while len(ends) < partitions:
            got: list[Any] = reader.consume(5000, 0.5)
            if got:
                deadline = time.monotonic() + READ_SECONDS_MAX
            assert time.monotonic() < deadline, f"{topic} ({isolation}): only {sorted(ends)} end"
            for message in got:
                error = message.error()
                if error is None:
                    values[message.partition()].append(message.value())
                elif is_end(error):
                    ends[message.partition()] = message.offset()
    finally:
        reader.close()
    return Log(values, ends)


@dataclass(frozen=True, slots=True)
class CopyVerdict:
    """What came of copying one topic to another."""

    copied: int
    aborted: int
    """Records in the output that readers of committed records do not see."""
    missing: int
    doubled: int
    foreign: int
    """Values in the output that the input does not have in that partition."""
    disordered: Sequence[int]
    """Partitions whose records are not in the input's order."""
    unstable: Sequence[int]
    """Partitions in which a transaction is open after all."""

    @property
    def is_clean(self) -> bool:
        wrong = self.missing or self.doubled or self.foreign or self.disordered or self.unstable
        return self.copied > 0 and not wrong


def compared(source: Mapping[int, Sequence[bytes]], committed: Log, everything: Log) -> CopyVerdict:
    """The verdict on an output that was read in both isolation levels; `source` is what was to be copied."""
    missing = doubled = foreign = 0
    disordered = []
    for number, wanted in source.items():
        counts = Counter(committed.values[number])
        known = set(wanted)
        missing += len(known - counts.keys())
        foreign += len(counts.keys() - known)
        doubled += sum(count - 1 for count in counts.values())
        firsts = list(dict.fromkeys(value for value in committed.values[number] if value in known))
        if firsts != [value for value in wanted if value in counts]:
            disordered.append(number)
    return CopyVerdict(
        copied=sum(map(len, committed.values.values())),
        aborted=sum(map(len, everything.values.values())) - sum(map(len, committed.values.values())),
        missing=missing,
        doubled=doubled,
        foreign=foreign,
        disordered=disordered,
        unstable=[number for number, end in everything.ends.items() if committed.ends[number] != end],
    )
