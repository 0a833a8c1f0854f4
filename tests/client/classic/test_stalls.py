"""A consumer that stood still beyond its session: it hands out and commits nothing of what is another's by then."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek.classic import KeyedMessage, Producer
from tests.support.cluster_processes import Cluster
from tests.support.connector_member import Member
from tests.support.local_process import running
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.integration

PARTITIONS = 4


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with running(Cluster(tmp_path / "cluster", zookeeper.connect, brokers=1, controllers=1)) as cluster:
        yield cluster


class ByNumber:
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


def test_no_message_reaches_two_members_across_a_stall(cluster: Cluster, tmp_path: Path, unique: str) -> None:
    topic = topic_creator(cluster.bootstrap)(PARTITIONS)
    members = [Member(tmp_path / f"member-{number}", cluster.connect, unique, topic) for number in range(2)]
    for member in members:
        wait_until("it has begun", member.log, lambda said: "ready" in said)
    registry = KazooClient(hosts=cluster.connect)
    registry.start()
    producer = Producer({"broker.list": cluster.bootstrap}, partitioner=ByNumber())
    written = 0

    def write_and_wait(count: int) -> None:
        nonlocal written
        numbers = range(written, written + count)
        producer.send([KeyedMessage(topic, b"%d" % number, part_key=number) for number in numbers])
        written += count
        wait_until("it has come to be", lambda: sum(len(member.lines()) for member in members) >= written)

    def committed() -> int:
        paths = [f"/consumers/{unique}/offsets/{topic}/{number}" for number in range(PARTITIONS)]
        return sum(int(registry.get(path)[0]) for path in paths if registry.exists(path))

    def owners() -> list[str]:
        path = f"/consumers/{unique}/owners/{topic}"
        try:
            return [registry.get(f"{path}/{name}")[0].decode() for name in registry.get_children(path)]
        except NoNodeError:
            return []  # just released

    try:
        wait_until("it has come to be", lambda: len(set(owners())) == 2 and len(owners()) == PARTITIONS)
        write_and_wait(200)
        # A record in hand is not committed before the next one is asked for: both wait for one.
        wait_until("it has come to be", lambda: committed() == written)
        stalled = members[0]
        stalled.process.send_signal(signal.SIGSTOP)
        write_and_wait(200)  # the other one takes over when the session is over
        wait_until("it has come to be", lambda: committed() == written)
        stalled.process.send_signal(signal.SIGCONT)
        wait_until("it has come to be", lambda: len(set(owners())) == 2 and len(owners()) == PARTITIONS)
        write_and_wait(200)
        counts = Counter(int(line) for member in members for line in member.lines())
        assert counts == Counter(range(written))
        assert committed() <= written
    finally:
        registry.stop()
        registry.close()
        producer.close()
        for member in members:
            member.close()
