"""Kafka's own tools 4.1.1 for reassignments, elections and the comparison of replicas, against three of our brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.support.cluster_processes import Cluster
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.kafka_tools import run_kafka_tool
from tests.support.peers import skip_or_fail, topic_creator
from tests.support.polling import SECONDS_MAX, wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

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


def all_leaders(admin: AdminClient, topic: str, *, partitions: int) -> dict[int, int]:
    """The leaders of a topic that was just created. The broker that is asked may learn of it a moment later."""
    wait_until("leaders", lambda: sum(one > 0 for one in leaders(admin, topic).values()) == partitions)
    return leaders(admin, topic)


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
    wait_until(
        "the plan", lambda: {one for each in replicas(admin, topic).values() for one in each} == {2, 3}
    )
    printed = reassign(cluster, "--verify", "--reassignment-json-file", plan)
    assert printed.count("is completed") == 4, printed
    assert "No partition reassignments found" in reassign(cluster, "--list")


def test_a_throttled_move_is_listed_and_cancelled_with_its_throttles(
    cluster: Cluster, admin: AdminClient, tmp_path: Path
) -> None:
    topic = topic_creator(cluster.bootstrap)(1)
    fill(cluster, topic, partitions=1, count=3000)
    (home,) = replicas(admin, topic)[0]
    away = home % 3 + 1
    plan = plan_file(
        tmp_path, {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [away]}]}
    )
    # Three megabytes would take half an hour.
    printed = reassign(cluster, "--execute", "--reassignment-json-file", plan, "--throttle", "1500")
    assert "Successfully started partition reassignment" in printed
    listed = reassign(cluster, "--list")
    assert f"{topic}-0: replicas: {away},{home}. adding: {away}. removing: {home}." in listed, listed
    assert "is still in progress" in reassign(cluster, "--verify", "--reassignment-json-file", plan)
    assert settings(admin, ResourceType.TOPIC, topic)["leader.replication.throttled.replicas"] == f"0:{home}"
    assert (
        settings(admin, ResourceType.TOPIC, topic)["follower.replication.throttled.replicas"] == f"0:{away}"
    )

    assert "Successfully cancelled" in reassign(cluster, "--cancel", "--reassignment-json-file", plan)
    wait_until("the end of the move", lambda: replicas(admin, topic) == {0: [home]})
    assert settings(admin, ResourceType.TOPIC, topic)["leader.replication.throttled.replicas"] == ""

    reassign(cluster, "--execute", "--reassignment-json-file", plan, "--throttle", "1500")
    # A second throttle, high enough, lets it end.
    reassign(cluster, "--execute", "--reassignment-json-file", plan, "--throttle", "50000000", "--additional")
    wait_until("the move", lambda: replicas(admin, topic) == {0: [away]})
    printed = reassign(cluster, "--verify", "--reassignment-json-file", plan)
    assert f"Reassignment of partition {topic}-0 is completed." in printed
    assert "Clearing topic-level throttles" in printed
    assert settings(admin, ResourceType.TOPIC, topic)["follower.replication.throttled.replicas"] == ""


def settings(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, str | None]:
    (described,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {key: entry.value for key, entry in described.result(SECONDS_MAX).items()}


def test_a_plan_that_cannot_be_is_refused_with_its_reason(cluster: Cluster, tmp_path: Path) -> None:
    topic = topic_creator(cluster.bootstrap)(1)
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [7]}]}
    with pytest.raises(AssertionError, match="Unknown broker id 7"):
        reassign(cluster, "--execute", "--reassignment-json-file", plan_file(tmp_path, plan))


def test_preferred_leaders_return_and_unclean_ones_lead_when_alone(
    cluster: Cluster, admin: AdminClient
) -> None:
    tool = f"{TOOLS}.LeaderElectionCommand"
    topic = topic_creator(cluster.bootstrap)(3, replicas=3)
    first = all_leaders(admin, topic, partitions=3)
    stopped = first[0]
    cluster.brokers[stopped].stop()
    wait_until("another leader", lambda: leaders(admin, topic)[0] not in (stopped, -1))
    cluster.brokers[stopped].start()
    wait_until("all in sync", lambda: in_sync(admin, topic)[0] == [1, 2, 3])
    assert leaders(admin, topic)[0] != stopped
    at = ("--bootstrap-server", cluster.bootstrap)
    printed = run_kafka_tool(tool, *at, "--election-type", "preferred", "--all-topic-partitions").stdout
    assert f"{topic}-0" in printed
    wait_until("preferred leaders", lambda: leaders(admin, topic) == first)
    one = ("--topic", topic, "--partition", "0")
    printed = run_kafka_tool(tool, *at, "--election-type", "preferred", *one).stdout
    assert "Valid replica already elected" in printed

    # Two replicas, of which one stops, the other takes more records and dies: the first is behind, and all there is.
    pair = topic_creator(cluster.bootstrap)(1, replicas=2)
    leader = all_leaders(admin, pair, partitions=1)[0]
    (behind,) = set(replicas(admin, pair)[0]) - {leader}
    cluster.brokers[behind].stop()
    wait_until("a smaller set", lambda: in_sync(admin, pair)[0] == [leader])
    fill(cluster, pair, partitions=1, count=10)
    cluster.brokers[leader].kill()
    cluster.brokers[behind].start()
    wait_until("no leader", lambda: leaders(admin, pair)[0] == -1)
    at = ("--bootstrap-server", cluster.brokers[behind].bootstrap)
    one = ("--topic", pair, "--partition", "0")
    printed = run_kafka_tool(tool, *at, "--election-type", "unclean", *one).stdout
    assert "Successfully completed leader election (UNCLEAN)" in printed, printed
    wait_until("the leader that is behind", lambda: leaders(admin, pair)[0] == behind)
    cluster.brokers[leader].start()
    wait_until("both in sync", lambda: len(in_sync(admin, pair)[0]) == 2)
