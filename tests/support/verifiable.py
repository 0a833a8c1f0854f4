"""Kafka's VerifiableProducer and VerifiableConsumer as processes, and what their lines of JSON said.

The producer sends rising numbers at the given rate, and prints each acknowledgement with partition and offset. The
consumer prints each record that it gets. `judged` compares the two. Left out: starting and stopping brokers.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.java import java_arguments, java_environment, kafka_classpath
from tests.support.local_process import LocalProcess

_TOOLS = "org.apache.kafka.tools"
_END_SECONDS_MAX = 150.0

Place = tuple[int, int]  # partition, offset


class _Tool(LocalProcess):
    """One of the two, started; a thread reads its lines."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str]) -> None:
        super().__init__(folder / f"{name}.log")
        command = java_arguments(f"{_TOOLS}.{name}", arguments, classpath=kafka_classpath())
        self.spawn(command, env=java_environment(), stdout=subprocess.PIPE)
        self._reading = threading.Thread(target=self._read, name=name, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"{"):
                self._take(json.loads(line))

    def _take(self, event: Any) -> None:
        raise NotImplementedError

    def said(self) -> str:
        """What it wrote to standard error."""
        return self.log()[-6000:]

    def stop(self, *, seconds_max: float = _END_SECONDS_MAX) -> int:
        """Let it end cleanly, and read its last lines."""
        process = self.process
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(seconds_max)
        finally:
            process.kill()
            process.wait()
            self._reading.join()
            if process.stdout is not None:
                process.stdout.close()


class Sender(_Tool):
    """Idempotent, acks=all, and never giving up before two minutes."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, *, per_second: int) -> None:
        self.acknowledged: dict[str, Place] = {}
        self.failed: list[str] = []
        self.latest = time.monotonic()
        self.pause_seconds_max = 0.0
        """The longest time without an acknowledgement, since the first."""
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "producer.properties"
        # The tool's own default is not to try again, which leaves idempotence off.
        settings.write_text("enable.idempotence=true\nretries=2147483647\n")
        connection = ("--bootstrap-server", bootstrap, "--topic", topic, "--producer.config", str(settings))
        super().__init__(
            folder, "VerifiableProducer", [*connection, "--acks", "-1", "--throughput", str(per_second)]
        )

    def _take(self, event: Any) -> None:
        if event["name"] == "producer_send_success":
            now = time.monotonic()
            if self.acknowledged:
                self.pause_seconds_max = max(self.pause_seconds_max, now - self.latest)
            self.latest = now
            self.acknowledged[event["value"]] = event["partition"], event["offset"]
        elif event["name"] == "producer_send_error":
            self.failed.append(f"{event['value']}: {event.get('message')}")


class Receiver(_Tool):
    """One member of a group, from the beginning of the topic."""

    def __init__(
        self, folder: Path, bootstrap: str, topic: str, *, group: str, protocol: str = "classic"
    ) -> None:
        self.received: dict[str, set[Place]] = {}
        self.again: Counter[str] = Counter()
        """Records that the group was given more than once, from one place: a commit was lost between."""
        arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose")
        super().__init__(folder, "VerifiableConsumer", [*arguments, "--group-protocol", protocol])

    def _take(self, event: Any) -> None:
        if event["name"] == "record_data":
            place = event["partition"], event["offset"]
            places = self.received.setdefault(event["value"], set())
            if place in places:
                self.again[event["value"]] += 1
            places.add(place)

    def wait_for(self, values: set[str], *, seconds_max: float) -> None:
        """Until all `values` were received; also returns when the time is up: `judged` says what is missing."""
        deadline = time.monotonic() + seconds_max
        while not values <= self.received.keys() and time.monotonic() < deadline and self.is_running:
            time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of it."""

    acknowledged: int
    lost: list[str]
    """Acknowledged and never received."""
    twice: list[str]
    """Written at more than one place, though the producer is idempotent."""
    moved: list[str]
    """Received from another place than was acknowledged."""
    redelivered: int
    failed: list[str]
    pause_seconds_max: float

    @property
    def is_clean(self) -> bool:
        return self.acknowledged > 0 and not (self.lost or self.twice or self.moved or self.failed)


def judged(sender: Sender, receiver: Receiver) -> Verdict:
    """Compares what both said; both have ended."""
    return compared(
        sender.acknowledged,
        receiver.received,
        redelivered=receiver.again.total(),
        failed=sender.failed,
        pause_seconds_max=sender.pause_seconds_max,
    )


def compared(
    acknowledged: Mapping[str, Place],
    received: Mapping[str, Collection[Place]],
    *,
    redelivered: int = 0,
    failed: Sequence[str] = (),
    pause_seconds_max: float = 0.0,
) -> Verdict:
    """The verdict on what was acknowledged, and where each value was received from."""
    return Verdict(
        acknowledged=len(acknowledged),
        lost=sorted(value for value in acknowledged if value not in received),
        twice=sorted(value for value, places in received.items() if len(places) > 1),
        moved=sorted(
            value
            for value, place in acknowledged.items()
            if value in received and place not in received[value]
        ),
        redelivered=redelivered,
        failed=list(failed),
        pause_seconds_max=pause_seconds_max,
    )
