"""Kafka's own tools 4.1.1 move replicas between log directories, and into named ones of other brokers (KIP-113).

Each test runs against Odradek and against Apache Kafka: two brokers, with two log directories each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import Broker
from tests.support.cluster_processes import Cluster
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.kafka_peer import KafkaCluster, KafkaPeer
from tests.support.kafka_tools import run_kafka_tool
from tests.support.peers import skip_or_fail, topic_creator
from tests.support.polling import SECONDS_MAX, wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
RECORDS = 3000
Peer = Cluster | KafkaCluster


class Place(NamedTuple):
    """Where kafka-log-dirs.sh shows a replica."""

    broker: int
    directory: str
    is_future: bool


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[Peer]:
    """Two brokers whose log directories are `data` and `more` in the folder of each."""
    try:
        kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    folder = tmp_path_factory.mktemp(request.param)
    made: Peer
    if request.param == "kafka":
        made = KafkaCluster(folder, brokers=2, heap="384m")
    else:
        made = Cluster(folder, zookeeper.connect, brokers=2, controllers=1)
    for broker in made.brokers.values():
        broker.settings["log.dirs"] = ",".join(directories(broker))
    try:
        made.start()
        yield made
    finally:
        made.close()


def directories(broker: Broker | KafkaPeer) -> tuple[str, str]:
    return str(broker.data), str(broker.data.with_name("more"))


@pytest.fixture
def filled(cluster: Peer) -> str:
    """A topic of one replica with three megabytes."""
    topic = topic_creator(cluster.bootstrap)(1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number + b"." * 1000, partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    return topic


def shown(cluster: Peer, topic: str) -> dict[Place, dict[str, Any]]:
    """What kafka-log-dirs.sh prints of the replicas of a topic."""
    tool = run_kafka_tool(
        LOG_DIRS, "--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", topic
    )
    (line,) = [line for line in tool.stdout.splitlines() if line.startswith("{")]
    return {
        Place(broker["broker"], directory["logDir"], replica["isFuture"]): replica
        for broker in json.loads(line)["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    }


def home_of(cluster: Peer, topic: str) -> tuple[Place, Place]:
    """Where the only replica is, and where it would be in the other directory of that broker."""
    (here,) = shown(cluster, topic)
    (there,) = set(directories(cluster.brokers[here.broker])) - {here.directory}
    return here, Place(here.broker, there, is_future=False)


class Plan:
    """A file for kafka-reassign-partitions.sh."""

    def __init__(
        self, cluster: Peer, file: Path, topic: str, replicas: list[int], log_dirs: list[str]
    ) -> None:
        one = {"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
        file.write_text(json.dumps({"version": 1, "partitions": [one]}))
        self._words = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file))

    def run(self, *words: str) -> str:
        return run_kafka_tool(REASSIGN, *self._words, *words).stdout

    def wait(self, wanted: str) -> None:
        """Ask with --verify until it says so, and has lifted the throttles."""

        def is_said() -> bool:
            printed = self.run("--verify")
            return wanted in printed and "Clearing broker-level throttles" in printed

        wait_until(f"{wanted!r}", is_said)


def throttle_of(cluster: Peer, broker_id: int) -> str | None:
    """The throttle that is set; None for none."""
    of_broker = ("--describe", "--entity-type", "brokers", "--entity-name", str(broker_id))
    tool = run_kafka_tool("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap, *of_broker)
    found = re.search(rf"^ *{re.escape(THROTTLE)}=(\d+) ", tool.stdout, re.MULTILINE)
    return None if found is None else found[1]


def test_a_replica_moves_within_its_broker(cluster: Peer, filled: str, tmp_path: Path) -> None:
    here, there = home_of(cluster, filled)
    plan = Plan(cluster, tmp_path / "plan.json", filled, [here.broker], [there.directory])
    printed = plan.run("--execute")
    assert (
        f"Successfully started moving log directory to {there.directory} for replica {filled}-0 "
        f"with broker {here.broker}" in printed
    )
    plan.wait(f"Reassignment of replica {filled}-0-{here.broker} completed successfully.")
    assert list(shown(cluster, filled)) == [there]


def test_a_throttled_move_is_shown_and_cancelled(cluster: Peer, filled: str, tmp_path: Path) -> None:
    here, there = home_of(cluster, filled)
    plan = Plan(cluster, tmp_path / "plan.json", filled, [here.broker], [there.directory])
    # Three megabytes would take half an hour.
    printed = plan.run("--execute", "--replica-alter-log-dirs-throttle", "1500")
    assert "The replica-alter-dir throttle limit was set to 1500 B/s" in printed
    wait_until("the throttle", lambda: throttle_of(cluster, here.broker) == "1500")
    replica = f"replica {filled}-0-{here.broker}"
    assert f"Reassignment of {replica} is still in progress." in plan.run("--verify")
    both = shown(cluster, filled)
    assert set(both) == {here, there._replace(is_future=True)}
    copy = both[there._replace(is_future=True)]
    assert (both[here]["offsetLag"], both[here]["size"] > copy["size"]) == (0, True)
    assert 0 < copy["offsetLag"] <= RECORDS

    printed = plan.run("--cancel")
    assert "None of the specified partition reassignments are active." in printed
    assert f"Successfully started moving log directory to {here.directory}" in printed
    wait_until("no throttle", lambda: throttle_of(cluster, here.broker) is None)
    wait_until("no copy", lambda: list(shown(cluster, filled)) == [here])
    assert f"Partition {filled}-0 on broker {here.broker} is not being moved" in plan.run("--verify")

    # What the throttle held back before does not hold the next move back.
    plan.run("--execute")
    plan.wait(f"Reassignment of {replica} completed successfully.")
    assert list(shown(cluster, filled)) == [there]


def test_a_second_throttle_lets_a_move_end(cluster: Peer, filled: str, tmp_path: Path) -> None:
    here, there = home_of(cluster, filled)
    plan = Plan(cluster, tmp_path / "plan.json", filled, [here.broker], [there.directory])
    plan.run("--execute", "--replica-alter-log-dirs-throttle", "1500")
    plan.run("--execute", "--replica-alter-log-dirs-throttle", "50000000", "--additional")
    plan.wait(f"Reassignment of replica {filled}-0-{here.broker} completed successfully.")
    wait_until("no throttle", lambda: throttle_of(cluster, here.broker) is None)


@pytest.mark.parametrize("place", [0, 1])
def test_a_replica_comes_to_another_broker_into_the_named_directory(
    cluster: Peer, filled: str, tmp_path: Path, place: int
) -> None:
    """The tool asks for the directory until the broker has the replica; the broker may have made it there before."""
    here, _ = home_of(cluster, filled)
    other = 3 - here.broker
    wanted = Place(other, directories(cluster.brokers[other])[place], is_future=False)
    plan = Plan(cluster, tmp_path / "plan.json", filled, [other], [wanted.directory])
    printed = plan.run("--execute")
    assert f"Successfully started partition reassignment for {filled}-0" in printed
    assert f"Successfully started moving log directory to {wanted.directory}" in printed
    plan.wait(f"Reassignment of replica {filled}-0-{other} completed successfully.")
    wait_until("the old one is gone", lambda: list(shown(cluster, filled)) == [wanted])


def test_a_directory_that_the_broker_has_not_is_refused(cluster: Peer, filled: str, tmp_path: Path) -> None:
    here, _ = home_of(cluster, filled)
    plan = Plan(cluster, tmp_path / "plan.json", filled, [here.broker], ["/nowhere"])
    with pytest.raises(AssertionError, match="not found in the broker config"):
        plan.run("--execute")
    said = f"is not being moved from log dir {here.directory} to /nowhere."
    assert said in plan.run("--verify")
    assert "None of the specified partition moves are active." in plan.run("--cancel")
