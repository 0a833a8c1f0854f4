"""`odradek status` on three brokers of which some are killed; on Apache Kafka's, too, as far as a quorum goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import odradek.testing
from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.support.cluster_processes import Cluster
from tests.support.java import JavaUnavailableError
from tests.support.kafka_peer import KafkaCluster
from tests.support.local_process import running
from tests.support.peers import skip_or_fail
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]

PATIENCE_SECONDS = 120.0
# A process that asks takes CPU, which the brokers need, too.
PAUSE_SECONDS = 1.0
SETTINGS = {"offsets.topic.num.partitions": "3"}


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with running(Cluster(tmp_path, zookeeper.connect, settings=SETTINGS)) as made:
        yield made


@pytest.fixture
def kafka_cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    made = KafkaCluster(tmp_path, settings=SETTINGS, heap="512m")
    try:
        made.start()
        yield made
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    finally:
        made.close()


def status(shell: Shell) -> tuple[int, dict[str, Any]]:
    with shell.start("status", "--output", "json") as process:
        out, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert out, error.decode()
    return process.returncode, json.loads(out)


def await_status(shell: Shell, is_so: Callable[[dict[str, Any]], bool]) -> tuple[int, dict[str, Any]]:
    """The status once it is as expected: dead brokers, and those that caught up, are noticed after some time."""
    return wait_until("the status is as expected", lambda: status(shell), lambda seen: is_so(seen[1]))


def states(document: dict[str, Any]) -> list[tuple[int, str]]:
    return [(broker["id"], broker["state"]) for broker in document["brokers"]]


def messages(document: dict[str, Any], health: str) -> list[str]:
    return [one["message"] for one in document["findings"] if one["health"] == health]


def make_topics(shell: Shell) -> None:
    shell.run("topics", "create", "spread", "-p", "6", "-r", "3", "-c", "min.insync.replicas=2")
    shell.run("topics", "create", "alone", "-p", "3", "-r", "1")


def one_broker_dies(cluster: Cluster | KafkaCluster) -> None:
    """What both kinds of cluster show alike."""
    shell = Shell(cluster.bootstrap)
    make_topics(shell)
    _, document = await_status(shell, lambda found: not found["problems"])
    assert document["controller"] is not None
    assert states(document) == [(1, "live"), (2, "live"), (3, "live")]
    assert document["health"] != "unhealthy"

    cluster.brokers[3].kill()
    code, document = await_status(
        shell,
        lambda found: found["problems"].get("under_replicated", 0) >= 6 and "offline" in found["problems"],
    )
    assert (document["health"], code) == ("unhealthy", ExitCode.UNHEALTHY)
    assert states(document) == [(1, "live"), (2, "live"), (3, "gone")]
    assert document["problems"]["offline"] == 1
    assert "1 partition offline: none of their replicas is available" in messages(document, "unhealthy")
    assert any(words.startswith("broker 3 is gone, with ") for words in messages(document, "degraded"))
    worst = document["problem_partitions"][0]
    assert (worst["topic"], worst["replicas"], worst["problems"][0]) == ("alone", [3], "offline")

    (unavailable,) = shell.json("topics", "describe", "alone", "spread", "--unavailable")
    assert (unavailable["name"], [row["replicas"] for row in unavailable["partitions"]]) == ("alone", [[3]])
    under = shell.json("topics", "describe", "spread", "--under-replicated-partitions")
    assert len(under[0]["partitions"]) == 6
    assert len(shell.json("topics", "describe", "spread", "--at-min-isr")[0]["partitions"]) == 6
    assert shell.json("topics", "describe", "spread", "--under-min-isr") == []
    listed = {topic["name"]: topic["problems"] for topic in shell.json("topics", "list")}
    assert listed["alone"]["offline"] == 1
    table = shell.run("topics", "list")
    assert "1 offline" in next(line for line in table.splitlines() if line.startswith("alone "))
    rows = shell.json("topics", "offsets", "alone", code=ExitCode.REFUSED)
    assert [row["offset"] for row in rows].count(0) == 2
    assert [row.get("error") for row in rows].count("LeaderNotAvailable") == 1

    # Without the topic that no broker has, all is served, with less to spare.
    shell.run("topics", "delete", "alone", "--execute")
    code, document = await_status(shell, lambda found: "offline" not in found["problems"])
    assert (document["health"], code) == ("degraded", ExitCode.DEGRADED)

    cluster.brokers[3].start()
    code, document = await_status(shell, lambda found: "under_replicated" not in found["problems"])
    assert states(document) == [(1, "live"), (2, "live"), (3, "live")]


def test_a_broker_that_dies_and_comes_back(cluster: Cluster) -> None:
    one_broker_dies(cluster)


@pytest.mark.java
def test_a_broker_of_apache_kafka_that_dies_and_comes_back(kafka_cluster: KafkaCluster) -> None:
    one_broker_dies(kafka_cluster)
    # It remembers a broker without any replica, too (KIP-1073).
    shell = Shell(kafka_cluster.bootstrap)
    shell.run("topics", "delete", "spread", "--execute")
    kafka_cluster.brokers[3].kill()
    _, document = await_status(shell, lambda found: (3, "gone") in states(found))
    gone = document["brokers"][2]
    assert (gone["replicas"], gone["address"]) == (0, kafka_cluster.brokers[3].bootstrap)


def test_two_brokers_that_die_and_leaders_that_are_not_the_preferred_ones(cluster: Cluster) -> None:
    shell = Shell(cluster.bootstrap)
    make_topics(shell)
    shell.run("topics", "delete", "alone", "--execute")
    await_status(shell, lambda found: not found["problems"])
    for number in (2, 3):
        cluster.brokers[number].kill()
    code, document = await_status(
        shell,
        lambda found: found["problems"].get("under_min_isr") == 6 and "leaderless" not in found["problems"],
    )
    assert (document["health"], code) == ("unhealthy", ExitCode.UNHEALTHY)
    assert document["problems"]["not_preferred"] == 4
    assert messages(document, "unhealthy") == [
        "6 partitions under min.insync.replicas: acks=all writes are refused"
    ]
    assert messages(document, "healthy") == ["4 partitions not led by their preferred leader"]
    shown = shell.run("status", code=ExitCode.UNHEALTHY)
    assert "brokers     1 live, gone: 2, 3\n" in shown
    assert "!! 6 partitions under min.insync.replicas" in shown
    (described,) = shell.json("topics", "describe", "spread", "--under-min-isr")
    assert len(described["partitions"]) == 6


def test_a_broker_that_does_not_answer_is_silent() -> None:
    with odradek.testing.broker() as broker:
        broker.create_topic("led")
        broker.fail("DescribeLogDirs", error="KAFKA_STORAGE_ERROR")
        code, document = status(Shell(broker.bootstrap))
        assert states(document) == [(1, "silent")]
        assert code == ExitCode.UNHEALTHY
        assert messages(document, "unhealthy")[0].startswith("broker 1 does not answer: ")
