"""How a machine grows with its processes: one, two, … of them, by a load that costs its sender little.

Machines of all sizes run at once, and the load goes to one after the other, in rounds. Each process of a broker has a
core of its own, and the load the others, where the processor has more cores than processes. A sender is a process for
each broker (`raw_load`). What was acknowledged is compared with the ends of the partitions in the end.

On two cores the senders of a machine of two share them with it. The figure to look at is then the processor's seconds
for a gigabyte, which must not rise with the number of processes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.peers import SETTINGS, compiled, storage
from bench.raw_load import Load
from bench.rounds import say
from tests.support.broker_process import CHECKOUT
from tests.support.machines import ClusterOfMachines, Machine
from tests.support.polling import SECONDS_MAX
from tests.support.zookeeper import ZooKeeper

PARTITIONS_EACH: Final = 3
_GIGABYTE: Final = 1e9
# (records of a request, bytes of a record, requests of a partition at a time)
_SHAPES: Final = {"1 KB records in 128 KB": (128, 1000, 8), "one record of 100 B": (1, 100, 64)}


class Measured(NamedTuple):
    """One load on one machine."""

    megabytes_per_second: float
    requests_per_second: float
    cpu_seconds_per_gigabyte: float


def measure_machines(
    *, processes: list[int], rounds: int, seconds: float, disk: str | None, is_json: bool
) -> int:
    """Print what machines of these sizes take, by the median of the rounds after a discarded one."""
    compiled()
    found: dict[tuple[str, int], list[Measured]] = {}
    with storage(disk) as folder:
        zookeeper = ZooKeeper(folder / "zookeeper")
        zookeeper.start()
        clusters: dict[int, ClusterOfMachines] = {}
        try:
            for count in processes:
                settings = {**SETTINGS, "log.retention.bytes": str(1 << 30)}
                clusters[count] = ClusterOfMachines(
                    folder / str(count),
                    zookeeper.connect,
                    machines=1,
                    processes=count,
                    settings=settings,
                )
                clusters[count].start()
                clusters[count].await_ready()
            for number in range(rounds + 1):
                for shape in _SHAPES:
                    for count, cluster in clusters.items():
                        one = _measure(
                            cluster.machines[1], f"round-{number}-{shape[:3].strip()}", shape, seconds
                        )
                        say(f"round {number} of {rounds}: {shape}, {count} processes: {one}")
                        if number:
                            found.setdefault((shape, count), []).append(one)
        finally:
            for cluster in clusters.values():
                cluster.close()
            zookeeper.close()
    _print(found, smallest=min(processes), is_json=is_json)
    return 0


def _measure(machine: Machine, topic: str, shape: str, seconds: float) -> Measured:
    records, record_bytes, in_flight = _SHAPES[shape]
    topic = topic.replace(" ", "-")
    admin = AdminClient({"bootstrap.servers": machine.bootstrap, "log_level": 2})
    partitions = PARTITIONS_EACH * machine.processes
    admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=60)[topic].result(SECONDS_MAX)
    metadata = admin.list_topics(topic, timeout=SECONDS_MAX)
    led: dict[int, list[int]] = {}
    for number, one in metadata.topics[topic].partitions.items():
        led.setdefault(one.leader, []).append(number)
    brokers = list(machine.processes_by_number().values())
    free = _pin(brokers)
    before = _cpu_seconds(brokers)
    loads = [
        Load(
            f"{metadata.brokers[leader].host}:{metadata.brokers[leader].port}",
            topic,
            numbers,
            seconds,
            record_bytes,
            records,
            in_flight,
            timestamp_ms=int(time.time() * 1000),
        )
        for leader, numbers in led.items()
    ]
    acknowledged, taken = _send(loads, free)
    cpu_seconds = _cpu_seconds(brokers) - before
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = admin.list_offsets({TopicPartition(topic, number): latest for number in range(partitions)})
    written = sum(one.result(SECONDS_MAX).offset for one in ends.values())
    assert written == acknowledged * records, (
        f"{acknowledged * records} records were acknowledged, {written} are there"
    )
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    gigabytes = acknowledged * records * record_bytes / _GIGABYTE
    return Measured(
        round(1000 * gigabytes / taken, 1),
        round(acknowledged / taken),
        round(cpu_seconds / gigabytes, 2),
    )


def _send(loads: list[Load], cores: set[int]) -> tuple[int, float]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "broker"), str(CHECKOUT)))}
    senders = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.raw_load", "produce", json.dumps(load._asdict())],
            env=environment,
            cwd=Path(CHECKOUT),
            stdout=subprocess.PIPE,
        )
        for load in loads
    ]
    for sender in senders:
        os.sched_setaffinity(sender.pid, cores)
    answers = []
    for sender in senders:
        out, _ = sender.communicate()
        assert sender.returncode == 0, "a sender has failed"
        answers.append(json.loads(out))
    return sum(one["batches"] for one in answers), max(one["seconds"] for one in answers)


def _pin(brokers: list[int]) -> set[int]:
    """Give each process a core of its own, if others are left for the load. Returns the load's."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) <= len(brokers):
        return set(cores)
    for pid, core in zip(brokers, cores, strict=False):
        os.sched_setaffinity(pid, {core})
    return set(cores[len(brokers) :])


def _cpu_seconds(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return float(sum(one.user + one.system for one in times))


def _print(found: dict[tuple[str, int], list[Measured]], *, smallest: int, is_json: bool) -> None:
    medians = {
        key: Measured(*(statistics.median(values) for values in zip(*rows, strict=True)))
        for key, rows in found.items()
    }
    for (shape, count), one in medians.items():
        growth = one.requests_per_second / medians[shape, smallest].requests_per_second
        row = {"load": shape, "processes": count, **one._asdict(), "growth": round(growth, 2)}
        print(json.dumps(row) if is_json else row, flush=True)
