"""Kafka's own tools 4.1.1 for reassignments, elections and the comparison of replicas, against three of our brokers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.support.cluster_processes import Cluster
from tests.support.java import JavaUnavailableError, kafka_classpath, run_kafka_tool
from tests.support.peers import skip_or_fail, topic_creator
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow]

TOOLS = "org.apache.kafka.tools"
PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    try:
        kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    folder = tmp_path_factory.mktemp("reassignment")
    settings = {"auto.leader.rebalance.enable": "false"}
    made = Cluster(folder, zookeeper.connect, controllers=1, settings=settings)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def fill(cluster: Cluster, topic: str, *, partitions: int, count: int, value_bytes: int = 1000) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, b"%d" % number + b"." * value_bytes, partition=number % partitions)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def replicas(admin: AdminClient, topic: str) -> dict[int, list[int]]:
    return {
        number: list(one.replicas)
        for number, one in admin.list_topics(topic, timeout=30).topics[topic].partitions.items()
    }


def in_sync(admin: AdminClient, topic: str) -> dict[int, list[int]]:
    return {
        number: sorted(one.isrs)
        for number, one in admin.list_topics(topic, timeout=30).topics[topic].partitions.items()
    }


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    return {
        number: one.leader
        for number, one in admin.list_topics(topic, timeout=30).topics[topic].partitions.items()
    }


def wait_for(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not come to be"
        time.sleep(0.1)


def reassign(cluster: Cluster, *arguments: str) -> str:
    tool = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    return run_kafka_tool(tool, "--bootstrap-server", cluster.bootstrap, *arguments).stdout


def plan_file(folder: Path, plan: dict[str, Any]) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return str(path)


def test_a_plan_is_made_executed_and_verified(cluster: Cluster, admin: AdminClient, tmp_path: Path) -> None:
    topic = topic_creator(cluster.bootstrap)(4)
    fill(cluster, topic, partitions=4, count=400)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    printed = reassign(
        cluster, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3"
    )
    found = re.search(r"Proposed partition reassignment configuration\s+(\{.*\})", printed)
    assert found is not None, printed
    plan = plan_file(tmp_path, json.loads(found[1]))
    assert "Successfully started partition reassignments" in reassign(
        cluster, "--execute", "--reassignment-json-file", plan
    )
    wait_for("the plan", lambda: {one for each in replicas(admin, topic).values() for one in each} == {2, 3})
    printed = reassign(cluster, "--verify", "--reassignment-json-file", plan)
    assert printed.count("is completed") == 4, printed
    assert "No partition reassignments found" in reassign(cluster, "--list")
