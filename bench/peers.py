"""The two brokers a benchmark compares, side by side on loopback, and what their processes use.

Ours runs as users run it; Apache Kafka 4.1.1 with the options of its own start script (G1, 1 GB of heap). Both have
the same settings of the log, on memory-backed storage unless a folder is named, so that the disk is not the judge.
"""

from __future__ import annotations

import compileall
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import psutil

from tests.support.broker_process import CHECKOUT, Broker
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import topic_creator
from tests.support.polling import SECONDS_MAX

Peer = Broker | KafkaPeer

EARLIER = "earlier"  # the name of a broker of another checkout


class Served(Protocol):
    """A peer of the measurement: a broker, or a cluster of several processes."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def pids(self) -> Sequence[int]: ...


# Deleted topics give their memory back at once and a group's first member does not wait; all else is as it comes.
SETTINGS = {
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "600000",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """The processor time that the serving processes have used since they began."""

    cpu_seconds: float
    resident_bytes: int


def usage(peer: Served) -> Usage:
    processes = [psutil.Process(pid) for pid in peer.pids]
    members = [member for process in processes for member in (process, *process.children(recursive=True))]
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


@cache
def compiled() -> None:
    """An installed package has its bytecode beside it; a checkout may lack it, and would be compiled at each start."""
    compileall.compile_dir(CHECKOUT / "broker", quiet=1)


def ours(folder: Path) -> Broker:
    compiled()
    return Broker(folder / "odradek", settings=SETTINGS)


def kafka(folder: Path) -> KafkaPeer:
    return KafkaPeer(folder / "kafka", settings=SETTINGS, quick=False)


def earlier(checkout: Path) -> Callable[[Path], Broker]:
    """Makes brokers of another checkout of this project. They run in the environment of this one."""

    def make(folder: Path) -> Broker:
        compileall.compile_dir(checkout / "broker", quiet=1)
        wrapper = ["env", f"PYTHONPATH={checkout / 'broker'}"]
        broker = Broker(folder / EARLIER, settings=SETTINGS, wrapper=wrapper)
        broker.name = EARLIER
        return broker

    return make


def pin(peers: list[Peer]) -> None:
    """Brokers on the upper half of the processor's cores, this process and the clients it will start on the lower."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    assert half, "there is one core only: nothing to part between brokers and clients"
    for peer in peers:
        for thread in os.listdir(f"/proc/{peer.pid}/task"):
            os.sched_setaffinity(int(thread), cores[half:])
    os.sched_setaffinity(0, cores[:half])


@contextmanager
def both(disk: str | None, *, is_pinned: bool = False, other: Callable[[Path], Peer]) -> Iterator[list[Peer]]:
    """Ours and the other broker, started."""
    with storage(disk) as folder:
        peers: list[Peer] = [ours(folder), other(folder)]
        cores = os.sched_getaffinity(0)
        try:
            for peer in peers:
                peer.start()
            if is_pinned:
                pin(peers)
            yield peers
        finally:
            os.sched_setaffinity(0, cores)
            for peer in peers:
                peer.close()


@contextmanager
def fresh_topic(peer: Served, partitions: int, *, replicas: int = 1) -> Iterator[str]:
    """A topic for one measurement, deleted after it; of three replicas two have to be in sync."""
    from confluent_kafka.admin import AdminClient

    settings = {"min_insync_replicas": "2"} if replicas > 2 else {}
    name = topic_creator(peer.bootstrap)(partitions, replicas=replicas, **settings)
    try:
        yield name
    finally:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 4})
        admin.delete_topics([name])[name].result(SECONDS_MAX)
