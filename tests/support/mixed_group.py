"""Groups of ours and of Kafka 1.1.1's own consumers: their writer, our members as processes, and their owners."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek import Admin, Client
from odradek.classic import KeyedMessage, Producer
from odradek.foundation.errors import InvalidReplicationFactor
from tests.support.connector_member import Member
from tests.support.first_kafka import FirstKafka
from tests.support.polling import SECONDS_MAX, eventually, wait_until


class Writer:
    """Writes numbers to all partitions in turn."""

    def __init__(self, kafka: FirstKafka, topic: str) -> None:
        self._producer = Producer({"broker.list": kafka.bootstrap}, partitioner=self)
        self._topic = topic
        self.count = 0

    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions

    def write(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self._producer.send([KeyedMessage(self._topic, b"%d" % one, part_key=one) for one in numbers])
        self.count += count

    def close(self) -> None:
        self._producer.close()


def wait_for(
    condition: Callable[[], bool], what: Callable[[], object], seconds_max: float = SECONDS_MAX
) -> None:
    wait_until("it is so", condition, seconds_max=seconds_max, more=what)


def member_process(folder: Path, kafka: FirstKafka, group: str, topic: str) -> Member:
    """One of ours in a process of its own, so that it can be killed."""
    return Member(folder.with_suffix(".txt"), kafka.zookeeper.connect, group, topic)


def owners_of(kafka: FirstKafka, group: str, topic: str) -> Counter[str]:
    """How many partitions each member owns."""
    client = KazooClient(hosts=kafka.zookeeper.connect)
    client.start()
    try:
        path = f"/consumers/{group}/owners/{topic}"
        threads = [client.get(f"{path}/{name}")[0].decode() for name in client.get_children(path)]
        return Counter(thread.rpartition("-")[0] for thread in threads)
    except NoNodeError:
        return Counter()
    finally:
        client.stop()
        client.close()


def make_topic(kafka: FirstKafka, topic: str, partitions: int) -> None:
    """Make a topic. A broker that has just started knows of none, itself included, until its controller says so."""

    async def make() -> None:
        async with Client(kafka.bootstrap) as client:
            await eventually(
                f"the topic {topic} is made",
                lambda: Admin(client).topics.create(topic, partitions=partitions, replication_factor=1),
                lambda made: True,
                not_yet=InvalidReplicationFactor,
                pause_seconds=0.1,
            )

    asyncio.run(make())
