"""Two controllers and three brokers on a real ZooKeeper; clients notice nothing but time when some are killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.deliveries import Deliveries
from tests.support.broker_process import CHECKOUT
from tests.support.cluster_processes import Cluster
from tests.support.local_process import running
from tests.support.polling import SECONDS_MAX, wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]

PATIENCE_SECONDS = 90.0


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}
    with running(Cluster(tmp_path, zookeeper.connect, settings=settings)) as made:
        yield made


def create(admin: AdminClient, name: str, *, partitions: int = 6, replicas: int = 3, **config: str) -> None:
    topic = NewTopic(
        name, partitions, replicas, config={key.replace("_", "."): v for key, v in config.items()}
    )
    admin.create_topics([topic], request_timeout=60)[name].result(SECONDS_MAX)


class Writer(Deliveries):
    """An idempotent producer with acks=all, and its acknowledged records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._topic = topic
        self._next = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2}
        )

    def write(self, count: int) -> None:
        """Write the next so many numbers, and wait until all are answered."""
        for number in range(self._next, self._next + count):
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self.told(number))
            self._producer.poll(0)
        self._next += count
        assert self._producer.flush(PATIENCE_SECONDS) == 0, "records are still waiting"
        assert self.failed == []


def read_all(bootstrap: str, topic: str, *, group: str, count: int) -> list[int]:
    """The first `count` numbers that a group is given."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    numbers: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while len(numbers) < count and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                numbers.append(int(message.value() or b""))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return numbers


def partitions_of(admin: AdminClient, topic: str) -> Any:
    return admin.list_topics(topic, timeout=30).topics[topic].partitions


def test_no_acknowledged_record_is_lost_with_controller_and_leader_killed(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create(admin, "orders", min_insync_replicas="2")
    assert {one.leader for one in partitions_of(admin, "orders").values()} == {1, 2, 3}
    writer = Writer(cluster.bootstrap, "orders")
    writer.write(300)
    # While all are there: the groups' topic is made with three replicas, or not at all.
    assert sorted(read_all(cluster.bootstrap, "orders", group="g", count=300)) == list(range(300))

    active = cluster.active_controller()
    cluster.controllers[active].kill()
    writer.write(300)
    # The request waits for the other controller to be elected.
    create(admin, "created-by-the-next-controller", replicas=1)
    assert cluster.active_controller() != active

    leader = partitions_of(admin, "orders")[0].leader
    cluster.brokers[leader].kill()
    writer.write(300)
    assert sorted(read_all(cluster.bootstrap, "orders", group="g", count=600)) == list(range(300, 900))

    cluster.brokers[leader].start()
    cluster.controllers[active].start()
    wait_until(
        "three replicas in sync",
        lambda: all(len(one.isrs) == 3 for one in partitions_of(admin, "orders").values()),
    )
    writer.write(100)
    assert sorted(writer.acknowledged) == list(range(1000))
    # The group continues from what it committed, wherever its coordinator is by now.
    assert sorted(read_all(cluster.bootstrap, "orders", group="g", count=100)) == list(range(900, 1000))


def test_killed_processes_are_noticed_before_their_sessions_end(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    """Their sessions last longer than the test waits for anything, so only refused connections can say it."""
    settings = {"offsets.topic.num.partitions": "1", "zookeeper.session.timeout.ms": "40000"}
    with running(Cluster(tmp_path, zookeeper.connect, settings=settings)) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        create(admin, "orders", min_insync_replicas="2")
        writer = Writer(cluster.bootstrap, "orders")
        writer.write(300)
        active, leader = cluster.active_controller(), partitions_of(admin, "orders")[0].leader
        cluster.controllers[active].kill()
        cluster.brokers[leader].kill()
        began = time.monotonic()
        writer.write(300)
        assert sorted(writer.acknowledged) == list(range(600))
        (other,) = set(cluster.controllers) - {active}
        assert f"broker {leader} has ended or stands still" in cluster.controllers[other].log()
        brokers = [broker for number, broker in cluster.brokers.items() if number != leader]
        assert any(f"controller {active} has ended" in broker.log() for broker in brokers)
        print(f"the next acknowledgement came {time.monotonic() - began:.2f} s after both had been killed")


def test_a_whole_cluster_starts_with_one_command_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek", "cluster", "--brokers", "2", "--controllers", "1"]
    command += ["--data", str(tmp_path / "cluster"), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(CHECKOUT / "broker"), "PATH": "/usr/bin:/bin"},
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith("cluster ready"):
                break
        bootstrap = re.fullmatch(r"cluster ready bootstrap=(\S+)", lines[-1])
        assert bootstrap is not None, lines
        admin = AdminClient({"bootstrap.servers": bootstrap[1]})
        create(admin, "t", replicas=2)
        writer = Writer(bootstrap[1], "t")
        writer.write(10)
        process.send_signal(2)
        rest, said = process.communicate(timeout=SECONDS_MAX)
        assert (process.returncode, said) == (0, "")
        assert rest.split("\n")[:-1].count("zookeeper stopped") == 1
        assert sum(line.endswith(" stopped") for line in rest.splitlines()) == 4
    finally:
        if process.poll() is None:
            process.send_signal(15)
            process.wait(SECONDS_MAX)


def test_a_broker_that_lingers_is_left_and_refuses_connections(cluster: Cluster) -> None:
    """As in a pod, whose address is gone with the process: a client that returns at once must not wait for nothing."""
    broker = cluster.brokers[3]
    broker.stop()
    broker.arguments += ["--linger", "60"]
    broker.start()
    os.kill(broker.pid, signal.SIGTERM)
    wait_until("the broker lingers", broker.log, lambda said: "are refused for another 60 s" in said)
    assert broker.is_running
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(("127.0.0.1", broker.port))
    admin = AdminClient({"bootstrap.servers": cluster.brokers[1].bootstrap})
    # The other brokers learn from the controller that it left, after it closed its session.
    wait_until("metadata without it", lambda: set(admin.list_topics(timeout=30).brokers) == {1, 2})
    assert broker.is_running, "the process ends when it has lingered"
