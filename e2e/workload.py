"""A steady load from a pod while something happens to the cluster, and the check of what it was promised."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.kube import Kube, until

CLIENT_POD = "client"
RECORDS_PER_SECOND = 100
CLIENT_ERROR_SECONDS_MAX = 10.0


@dataclass(slots=True)
class Load:
    """A producer's report about itself; filled in when the load ends."""

    topic: str
    sent: int = 0
    acknowledged: list[tuple[int, int, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    gap_seconds: float = 0.0
    latency_seconds: float = 0.0
    errors: list[str] = field(default_factory=list)

    def check_promises(self, kube: Kube, bootstrap: str) -> None:
        """No acknowledged record is lost or elsewhere, none failed, and nothing lasted longer than 10 s."""
        self.check_kept(kube, bootstrap)
        assert self.latency_seconds <= CLIENT_ERROR_SECONDS_MAX, (
            f"a write took {self.latency_seconds} s: {self.errors[-20:]}"
        )

    def check_kept(self, kube: Kube, bootstrap: str) -> None:
        """No acknowledged record is lost or elsewhere, and no write failed for good."""
        reported = f"{self.errors[-20:]}; {self.failed[:5]}"
        assert self.acknowledged, f"nothing was acknowledged: {reported}"
        held = {
            (partition, offset): value
            for partition, offset, _, value in everything(kube, bootstrap, self.topic)
        }
        lost = [one for one in self.acknowledged if held.get((one[0], one[1])) != one[2]]
        assert not lost, (
            f"{len(lost)} of {len(self.acknowledged)} acknowledged records are not there: {lost[:5]}; {reported}"
        )
        assert not self.failed, f"{len(self.failed)} of {self.sent} writes failed: {reported}"
        assert len(self.acknowledged) == self.sent


@contextmanager
def load_on(
    kube: Kube, bootstrap: str, topic: str, records_per_second: int = RECORDS_PER_SECOND, **settings: str
) -> Iterator[Load]:
    """A load that has begun, continues during the block, and has reported after it; `settings` are librdkafka's."""
    load = Load(topic)
    command = ["python3", "load.py", bootstrap, topic, str(records_per_second), uuid.uuid4().hex[:6]]
    process = kube.beside(CLIENT_POD, *command, *(f"{name}={value}" for name, value in settings.items()))
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == "begun\n", (
            f"the load did not begin: {first} {process.stderr and process.stderr.read()}"
        )
        began = time.monotonic()
        yield load
    except BaseException:
        process.kill()
        process.communicate()
        raise
    said, errors = process.communicate(timeout=120)  # closes its input
    assert process.returncode == 0, f"the load failed: {errors[-2000:]}"
    reported: dict[str, Any] = json.loads(said.splitlines()[-1])
    for name, value in reported.items():
        setattr(load, name, [tuple(one) for one in value] if name == "acknowledged" else value)
    print(
        f"{load.sent} records in {time.monotonic() - began:.1f} s, slowest {load.latency_seconds} s, "
        f"longest gap {load.gap_seconds} s, {len(load.errors)} errors: {load.errors[-3:]}"
    )


def everything(kube: Kube, bootstrap: str, topic: str) -> list[tuple[int, int, str | None, str | None]]:
    """(partition, offset, key, value) of all that a topic holds, read from a pod with kafka-python."""
    printed = kube.inside(CLIENT_POD, "python3", "everything.py", bootstrap, topic)
    return [tuple(one) for one in json.loads(printed)]


def produce(kube: Kube, bootstrap: str, topic: str, values: list[str]) -> None:
    """Send values with kcat from a pod, each as key and value, and wait for acks=all."""
    lines = "".join(f"{value}:{value}\n" for value in values)
    kube.inside(CLIENT_POD, "kcat", "-P", "-b", bootstrap, "-t", topic, "-K:", "-X", "acks=all", stdin=lines)


def listed(kube: Kube, bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """A topic's partitions as clients see them; empty without the topic.

    All topics are asked for: to ask for one makes it, as Kafka's clients expect.
    """
    reported = json.loads(kube.inside(CLIENT_POD, "kcat", "-m", "60", "-L", "-J", "-b", bootstrap))
    return next((list(one["partitions"]) for one in reported["topics"] if one["topic"] == topic), [])


def listed_with(kube: Kube, bootstrap: str, topic: str, partitions: int) -> list[dict[str, Any]]:
    """The same once the broker that is asked knows all partitions."""
    return until(
        lambda: listed(kube, bootstrap, topic),
        lambda found: len(found) == partitions,
        seconds_max=60,
        what=f"{topic} has {partitions} partitions",
    )


class Member:
    """A member of a group in a pod, whose lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def read(self, count: int) -> list[str]:
        """The next lines; blocks until they are there or the member has ended (pytest's time limit bounds it)."""
        assert self.process.stdout is not None
        lines: list[str] = []
        while len(lines) < count and (line := self.process.stdout.readline()):
            lines.append(line.rstrip("\n"))
        return lines

    def close(self) -> None:
        """End it as a client that leaves its group."""
        self.process.communicate(timeout=60)


@contextmanager
def member_of(kube: Kube, bootstrap: str, topic: str, group: str) -> Iterator[Member]:
    """A member that has joined and has partitions; it leaves at the end of the block."""
    member = Member(kube.beside(CLIENT_POD, "python3", "member.py", bootstrap, topic, group))
    try:
        assert member.read(1) == ["joined"]
        yield member
    except BaseException:
        member.process.kill()
        member.process.communicate()
        raise
    member.close()
