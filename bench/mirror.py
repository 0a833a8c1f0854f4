"""A mirror beside MirrorMaker 2 of Apache Kafka 4.1.1: CPU seconds of the mirror for a gigabyte of records.

Both copy the same topic from one broker of ours to another, one after the other. Each runs already, and waits for
records, when they are written; so its start does not count. The first round is discarded: a JVM compiles what it runs.
Records have 1 KB, in batches of 16 KB and 64 KB, and pass unopened here. Ours copies exactly once, and MirrorMaker at
least once, which is its default and costs it less.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from bench.peers import storage
from bench.rounds import say
from odradek import Producer
from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import LATEST
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.support.broker_process import CHECKOUT, Broker
from tests.support.java import java_arguments, java_environment, mirror_maker_classpath

OURS, THEIRS = "odradek", "MirrorMaker"
BATCH_BYTES: Final = (16 * 1024, 64 * 1024)
PARTITIONS: Final = 4
_RECORD_BYTES: Final = 1_000
_GIGABYTE: Final = 1_000_000_000
_WAIT_SECONDS_MAX: Final = 600.0
_SETTLE_SECONDS: Final = 1.0


def compare_mirrors(*, rounds: int, megabytes: int, disk: str | None) -> int:
    """Measure `rounds` times after a discarded round, and print one line of JSON."""
    with storage(disk) as folder:
        source, target = Broker(folder / "source"), Broker(folder / "target")
        source.start()
        target.start()
        try:
            found = {
                mirror: asyncio.run(
                    _measured(mirror, folder, source, target, rounds=rounds, megabytes=megabytes)
                )
                for mirror in (OURS, THEIRS)
            }
        finally:
            source.close()
            target.close()
    answer: dict[str, object] = {"megabytes": megabytes, "rounds": rounds, "load": os.getloadavg()[0]}
    for size in BATCH_BYTES:
        ours, theirs = (statistics.median(found[mirror][size]) for mirror in (OURS, THEIRS))
        answer[f"{size // 1024} KB batches"] = {
            "odradek_cpu_seconds_per_gb": round(ours, 2),
            "mirror_maker_cpu_seconds_per_gb": round(theirs, 2),
            "ratio": round(ours / theirs, 3),
        }
    print(json.dumps(answer), flush=True)
    return 0


async def _measured(
    mirror: str, folder: Path, source: Broker, target: Broker, *, rounds: int, megabytes: int
) -> dict[int, list[float]]:
    """CPU seconds for a gigabyte, by the size of batches."""
    found: dict[int, list[float]] = {size: [] for size in BATCH_BYTES}
    async with Client(source.bootstrap) as there, Client(target.bootstrap) as here:
        topics = {size: f"{mirror.lower()}-{size}" for size in BATCH_BYTES}
        for topic in topics.values():
            await Admin(there).topics.create(topic, partitions=PARTITIONS)
            await _write(there, topic, count=PARTITIONS * 10, batch_bytes=BATCH_BYTES[0])
        with _process(mirror, folder, source, target, list(topics.values())) as process:
            for topic in topics.values():
                await _copied(there, here, topic)
            for number in range(rounds + 1):
                for size, topic in topics.items():
                    say(f"{mirror}, round {number} of {rounds}, batches of {size // 1024} KB")
                    before = _cpu_seconds(process)
                    await _write(there, topic, count=megabytes * 1_000_000 // _RECORD_BYTES, batch_bytes=size)
                    await _copied(there, here, topic)
                    await asyncio.sleep(_SETTLE_SECONDS)
                    if number:
                        used = _cpu_seconds(process) - before
                        found[size].append(used * _GIGABYTE / (megabytes * 1_000_000))
    return found


async def _write(client: Client, topic: str, *, count: int, batch_bytes: int) -> None:
    value = os.urandom(_RECORD_BYTES - 20)
    async with Producer(client, batch_bytes_max=batch_bytes, linger_ms=50) as producer:
        for number in range(count):
            await producer.send(topic, value, key=b"%010d" % number, partition=number % PARTITIONS)


async def _copied(source: Client, target: Client, topic: str) -> None:
    """Wait until the target has as many records as the source; ends of the target count its markers, too."""
    keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    wanted = sum((await Admin(source).logs.offsets_at(keys, LATEST)).values())
    copies = [TopicPartition(f"a.{topic}", number) for number in range(PARTITIONS)]
    deadline = time.perf_counter() + _WAIT_SECONDS_MAX
    while time.perf_counter() < deadline:
        try:
            ends = await Admin(target).logs.offsets_at(copies, LATEST, read_committed=True)
            if sum(ends.values()) >= wanted:
                return
        except OdradekError:
            pass  # the topic is not there yet
        await asyncio.sleep(0.2)
    raise SystemExit(f"{topic} was not copied within {_WAIT_SECONDS_MAX:g} s")


@contextmanager
def _process(
    mirror: str, folder: Path, source: Broker, target: Broker, topics: Sequence[str]
) -> Iterator[psutil.Process]:
    """The mirror as a process, ended at the end."""
    file = folder / f"{mirror}.properties"
    file.write_text(_properties(source, target, topics))
    command, environment = _command(mirror, file)
    with (folder / f"{mirror}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _command(mirror: str, file: Path) -> tuple[list[str], Mapping[str, str]]:
    if mirror == OURS:
        return (
            [sys.executable, "-m", "odradek", "mirror", "--config", str(file)],
            {**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")},
        )
    return (
        java_arguments(
            "org.apache.kafka.connect.mirror.MirrorMaker",
            [str(file)],
            classpath=mirror_maker_classpath(),
            heap="1g",
            quick=False,
        ),
        java_environment(),
    )


def _properties(source: Broker, target: Broker, topics: Sequence[str]) -> str:
    lines = {
        "clusters": "a, b",
        "a.bootstrap.servers": source.bootstrap,
        "b.bootstrap.servers": target.bootstrap,
        "a->b.enabled": "true",
        "b->a.enabled": "false",
        "a->b.topics": ", ".join(topics),
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        **{
            f"{name}.replication.factor": "1"
            for name in ("offset.storage", "config.storage", "status.storage", "offset-syncs.topic")
        },
        **{f"{name}.topic.replication.factor": "1" for name in ("checkpoints", "heartbeats")},
        "replication.factor": "1",
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
