"""The two brokers a benchmark compares, side by side on loopback, and what their processes use.

Ours runs as users run it; Apache Kafka 4.1.1 with the options of its own start script (G1, 1 GB of heap). Both have
the same settings of the log, on memory-backed storage unless a folder is named, so that the disk is not the judge.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.broker_process import Broker
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import topic_creator

Peer = Broker | KafkaPeer

# Deleted topics give their memory back at once; all else is as it comes.
SETTINGS = {"log.segment.delete.delay.ms": "100", "log.retention.check.interval.ms": "600000"}


@dataclass(frozen=True, slots=True)
class Usage:
    """What a broker's process has used since it began."""

    cpu_seconds: float
    resident_bytes: int


def usage(peer: Peer) -> Usage:
    process = psutil.Process(peer.pid)
    members = [process, *process.children(recursive=True)]
    times = [member.cpu_times() for member in members]
    return Usage(
        cpu_seconds=sum(one.user + one.system for one in times),
        resident_bytes=sum(member.memory_info().rss for member in members),
    )


@contextmanager
def storage(disk: str | None) -> Iterator[Path]:
    """A folder for the logs: in memory, or below `disk`."""
    folder = Path(tempfile.mkdtemp(prefix="odradek-bench-", dir=disk or "/dev/shm"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ours(folder: Path) -> Broker:
    return Broker(folder / "odradek", settings=SETTINGS)


def kafka(folder: Path) -> KafkaPeer:
    return KafkaPeer(folder / "kafka", settings=SETTINGS, quick=False)


@contextmanager
def both(disk: str | None) -> Iterator[list[Peer]]:
    """Both brokers, started."""
    with storage(disk) as folder:
        peers: list[Peer] = [ours(folder), kafka(folder)]
        try:
            for peer in peers:
                peer.start()
            yield peers
        finally:
            for peer in peers:
                peer.close()


@contextmanager
def fresh_topic(peer: Peer, partitions: int) -> Iterator[str]:
    """A topic for one measurement, deleted after it."""
    from confluent_kafka.admin import AdminClient

    name = topic_creator(peer.bootstrap)(partitions)
    try:
        yield name
    finally:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap})
        admin.delete_topics([name])[name].result(30)
