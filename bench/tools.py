"""Apache Kafka's own performance tools, run once, and the numbers they print."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.peers import Served, usage
from tests.support.java import java_arguments, java_environment, kafka_classpath

TOOLS = "org.apache.kafka.tools"
TOOL_SECONDS_MAX = 900


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a tool against one broker."""

    records_per_second: float
    megabytes_per_second: float
    broker_cpu_seconds: float
    payload_bytes: int

    @property
    def cpu_seconds_per_gigabyte(self) -> float:
        return self.broker_cpu_seconds / (self.payload_bytes / 1e9)


def produce(
    peer: Served,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    transaction_ms: int | None = None,
    client_config: Path | None = None,
    **properties: str,
) -> Run:
    """ProducerPerformance as fast as it goes; properties are the producer's, underscores for dots.

    With `transaction_ms` it commits a transaction after each such time. `client_config` is a file of properties.
    """
    given = {"bootstrap.servers": peer.bootstrap, "acks": "all"}
    given |= {key.replace("_", "."): value for key, value in properties.items()}
    before = usage(peer)
    printed = _run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)),
        *("--throughput", "-1", "--producer-props", *(f"{key}={value}" for key, value in given.items())),
        *(() if transaction_ms is None else ("--transaction-duration-ms", str(transaction_ms))),
        *(() if client_config is None else ("--producer.config", str(client_config))),
    )
    cpu_seconds = usage(peer).cpu_seconds - before.cpu_seconds
    found = re.findall(r"([\d.]+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\)", printed)
    sent, per_second, megabytes = found[-1]
    assert int(sent) == records, printed
    return Run(float(per_second), float(megabytes), cpu_seconds, records * record_bytes)


def consume(
    peer: Served, topic: str, *, records: int, record_bytes: int, client_config: Path | None = None
) -> Run:
    """ConsumerPerformance from the beginning; the time of joining the group is left out."""
    before = usage(peer)
    printed = _run(
        "ConsumerPerformance",
        *("--bootstrap-server", peer.bootstrap, "--topic", topic, "--messages", str(records)),
        *("--group", f"bench-{time.monotonic_ns()}", "--timeout", "60000", "--hide-header"),
        *(() if client_config is None else ("--consumer.config", str(client_config))),
    )
    cpu_seconds = usage(peer).cpu_seconds - before.cpu_seconds
    columns = [column.strip() for column in printed.strip().splitlines()[-1].split(",")]
    got, megabytes_per_second, records_per_second = int(columns[4]), float(columns[8]), float(columns[9])
    assert got >= records, printed
    return Run(records_per_second, megabytes_per_second, cpu_seconds, records * record_bytes)


def _run(tool: str, *arguments: str) -> str:
    command = java_arguments(
        f"{TOOLS}.{tool}", arguments, classpath=kafka_classpath(), heap="512m", quick=False
    )
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TOOL_SECONDS_MAX, env=java_environment()
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
