"""Groups of ours and of Kafka 1.1.1's own consumers: their writer, our members as processes, and their owners."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek import Admin, Client
from odradek.clients import KeyedMessage, Producer
from odradek.foundation.errors import InvalidReplicationFactor
from tests.support.first_kafka import FirstKafka
from tests.support.polling import SECONDS_MAX

CONTROLLER_SECONDS_MAX = 60.0


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


def wait_for(condition: Callable[[], bool], what: Callable[[], object], seconds_max: float = 60) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


class Process:
    """One of ours in a process of its own, so that it can be killed."""

    def __init__(self, folder: Path, kafka: FirstKafka, group: str, topic: str) -> None:
        self._output = folder.with_suffix(".txt")
        arguments = [kafka.zookeeper.connect, group, topic]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.connector_member", *arguments],
                stdout=output,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def lines(self) -> list[str]:
        return [line for line in self._output.read_text().split("\n") if line.isdecimal()]

    def stop(self) -> None:
        """End it; it commits and leaves its group."""
        self._process.terminate()
        self._process.wait(SECONDS_MAX)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


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
        deadline = time.monotonic() + CONTROLLER_SECONDS_MAX
        async with Client(kafka.bootstrap) as client:
            while True:
                try:
                    await Admin(client).topics.create(topic, partitions=partitions, replication_factor=1)
                    return
                except InvalidReplicationFactor:
                    if time.monotonic() > deadline:
                        raise
                await asyncio.sleep(0.1)

    asyncio.run(make())
