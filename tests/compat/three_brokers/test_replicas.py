"""What the three brokers keep, as Kafka's own tool compares it; and franz-go's tests on topics with three replicas."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.three_brokers.bounces import REPLICAS
from tests.support.cluster_processes import Cluster
from tests.support.java import java_arguments, java_environment, kafka_classpath
from tests.support.peers import topic_creator
from tests.support.programs import require_franz_go

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]

_FRANZ_GO = Path(__file__).parents[1] / "franz-go" / "run"
_TOOL = "org.apache.kafka.tools.ReplicaVerificationTool"
_REPORT_SECONDS_MAX = 60.0


@pytest.mark.java
def test_kafkas_tool_finds_all_replicas_alike(cluster: Cluster) -> None:
    topic = topic_creator(cluster.bootstrap)(4, replicas=REPLICAS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "lz4", "linger.ms": 5})
    for number in range(20_000):
        producer.produce(topic, b"%d" % number * 20)
        producer.poll(0)
    assert producer.flush(60) == 0
    reports = _reports(cluster.bootstrap, topic)
    assert len(reports) >= 2
    # The first report is of a start that has seen nothing; each later one must have been through everything.
    assert all("max lag is 0 for partition" in line for line in reports[1:]), reports


def _reports(bootstrap: str, topic: str) -> list[str]:
    """The tool's first reports of the replicas; it ends only when it is stopped."""
    arguments = ("--broker-list", bootstrap, "--topics-include", topic, "--time", "-2")
    process = subprocess.Popen(
        java_arguments(_TOOL, [*arguments, "--report-interval-ms", "500"], classpath=kafka_classpath()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env=java_environment(),
    )
    said: list[str] = []
    reports: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if re.search(r"max lag is \d+ for partition", line):
                reports.append(line.strip())
            if len(reports) == 4:
                return reports
        raise AssertionError("the tool ended:\n" + "".join(said)[-4000:])
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.timeout(1200)
def test_franz_gos_own_tests_pass_with_three_replicas(cluster: Cluster) -> None:
    require_franz_go()
    command = [sys.executable, str(_FRANZ_GO), "--seeds", cluster.bootstrap, "--replicas", str(REPLICAS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1150)
    print(done.stdout[-15_000:])
    assert done.returncode == 0, done.stdout.splitlines()[-1:] or done.stderr
