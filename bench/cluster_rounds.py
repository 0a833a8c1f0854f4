"""Clusters compared as single brokers are: interleaved rounds after a smaller one that is discarded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import end_to_end, tools
from bench.clusters import REPLICAS, AnyCluster, both_clusters
from bench.failover import failover_seconds, start_after_kill_seconds, start_with_partitions_seconds
from bench.memory import log_bytes, touched
from bench.peers import fresh_topic, usage
from bench.questions import CLUSTER_QUESTIONS, Answers
from bench.rounds import PARTITIONS, say


@dataclass(frozen=True, slots=True)
class ClusterSizes:
    """The amount of each that is sent in a round."""

    records_100: int
    records_1k: int
    latency: int
    recovered: int
    partitions: int


FULL = ClusterSizes(
    records_100=3_000_000, records_1k=600_000, latency=3000, recovered=1_000_000, partitions=1000
)
QUICK = ClusterSizes(
    records_100=1_000_000, records_1k=200_000, latency=1000, recovered=1_000_000, partitions=1000
)
_WARMING = ClusterSizes(records_100=500_000, records_1k=100_000, latency=500, recovered=50_000, partitions=50)

Step = Callable[[AnyCluster, Answers, ClusterSizes], None]


def compare_clusters(
    *, rounds: int, sizes: ClusterSizes, disk: str | None, only: Sequence[str] = (), minutes_max: float = 60
) -> tuple[Answers, int]:
    """Ask everything `rounds` times: the answers, and how many rounds there was time for. `only`: of CLUSTER_PARTS."""
    answers = Answers(CLUSTER_QUESTIONS)
    steps = [step for name, step in _STEPS.items() if not only or name in only]
    deadline = time.monotonic() + minutes_max * 60
    with both_clusters(disk) as clusters:
        for number in range(rounds + 1):
            began = time.monotonic()
            kept = answers if number else Answers(CLUSTER_QUESTIONS)
            for step in steps:
                for cluster in clusters if number % 2 else clusters[::-1]:
                    if number == 0 and step not in _WARMED:
                        continue
                    say(f"round {number} of {rounds}: {cluster.name}, {step.__name__}")
                    step(cluster, kept, sizes if number else _WARMING)
            ended = time.monotonic()
            if number and number < rounds and ended + (ended - began) > deadline:
                say(f"no time for more than {number} rounds (--minutes-max)")
                rounds = number
                break
        for cluster in clusters:
            answers.add("memory of all", cluster.name, usage(cluster).resident_bytes / 1e6)
    return answers, rounds


def throughput_100(cluster: AnyCluster, answers: Answers, sizes: ClusterSizes) -> None:
    _throughput(cluster, answers, label="100 B", record_bytes=100, records=sizes.records_100)


def throughput_1k(cluster: AnyCluster, answers: Answers, sizes: ClusterSizes) -> None:
    _throughput(cluster, answers, label="1 KB", record_bytes=1000, records=sizes.records_1k)


def _throughput(
    cluster: AnyCluster, answers: Answers, *, label: str, record_bytes: int, records: int
) -> None:
    with fresh_topic(cluster, PARTITIONS, replicas=REPLICAS) as topic:
        with touched(log_bytes(records=records, record_bytes=record_bytes) * REPLICAS):
            sent = tools.produce(cluster, topic, records=records, record_bytes=record_bytes)
        answers.add(f"produce {label}", cluster.name, sent.megabytes_per_second)
        answers.add(f"CPU, produce {label}", cluster.name, sent.cpu_seconds_per_gigabyte)
        got = tools.consume(cluster, topic, records=records, record_bytes=record_bytes)
        answers.add(f"consume {label}", cluster.name, got.megabytes_per_second)
        answers.add(f"CPU, consume {label}", cluster.name, got.cpu_seconds_per_gigabyte)


def latency(cluster: AnyCluster, answers: Answers, sizes: ClusterSizes) -> None:
    with fresh_topic(cluster, 1, replicas=REPLICAS) as topic:
        found = end_to_end.kafkas_clients(cluster, topic, records=sizes.latency, discarded=sizes.latency)
    answers.add("end to end p50", cluster.name, found.p50_ms)
    answers.add("end to end p99", cluster.name, found.p99_ms)


def failover(cluster: AnyCluster, answers: Answers, sizes: ClusterSizes) -> None:
    del sizes
    elected, acknowledged = failover_seconds(cluster)
    answers.add("failover, leaders moved", cluster.name, elected)
    answers.add("failover, all acknowledged", cluster.name, acknowledged)


def recovery(cluster: AnyCluster, answers: Answers, sizes: ClusterSizes) -> None:
    seconds = start_after_kill_seconds(cluster, records=sizes.recovered, record_bytes=1000)
    answers.add("start after kill, 1 GB", cluster.name, seconds)


def start(cluster: AnyCluster, answers: Answers, sizes: ClusterSizes) -> None:
    seconds = start_with_partitions_seconds(cluster, partitions=sizes.partitions)
    answers.add("start, 1,000 partitions", cluster.name, seconds)


_STEPS: dict[str, Step] = {
    "100B": throughput_100,
    "1KB": throughput_1k,
    "latency": latency,
    "failover": failover,
    "recovery": recovery,
    "start": start,
}
# Steps whose first run is slower for the brokers' or clients' warming; the others are about new processes.
_WARMED = (throughput_100, throughput_1k, latency)
CLUSTER_PARTS = tuple(_STEPS)
