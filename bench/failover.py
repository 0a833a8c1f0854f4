"""How long a cluster is without leaders after one of its brokers is killed, and how long a start takes.

A broker that leads a third of 300 partitions is killed. Two times are taken from then on. The first ends when another
broker's metadata names a live leader for each. The second ends when a producer that never stopped has a record
acknowledged by each. Both hold the time until the dead broker is missed, for which the two clusters have the same
setting.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench import tools
from bench.clusters import REPLICAS, AnyCluster
from bench.memory import log_bytes, touched
from bench.peers import fresh_topic
from tests.support.polling import wait_until

PARTITIONS = 300
PATIENCE_SECONDS = 120.0
_TICK_SECONDS = 0.01


def failover_seconds(cluster: AnyCluster) -> tuple[float, float]:
    """(until leaders are elected, until every partition has acknowledged a record), from the kill of broker 1.

    The broker is back and in sync when this returns.
    """
    with fresh_topic(cluster, PARTITIONS, replicas=REPLICAS) as topic:
        others = ",".join(broker.bootstrap for number, broker in cluster.brokers.items() if number != 1)
        admin = AdminClient({"bootstrap.servers": others, "log_level": 2})
        await_in_sync(admin, topic)
        led = [number for number, one in partitions_of(admin, topic).items() if one.leader == 1]
        assert led, "broker 1 leads nothing"
        writer = _Writer(others, topic, led)
        writer.write_until_all_answered()
        killed_at = time.monotonic()
        cluster.brokers[1].kill()
        writer.begin_again()
        elected_at = 0.0
        while not writer.is_done or not elected_at:
            writer.write()
            if not elected_at and all(
                one.leader not in (-1, 1) for one in partitions_of(admin, topic).values()
            ):
                elected_at = time.monotonic()
            assert time.monotonic() - killed_at < PATIENCE_SECONDS, f"no leaders for {topic} yet"
        writer.close()
        cluster.brokers[1].start()
        await_in_sync(admin, topic)
        return elected_at - killed_at, writer.done_at - killed_at


class _Writer:
    """Writes to some partitions over and over, one record for each on its way, until each has acknowledged one."""

    def __init__(self, bootstrap: str, topic: str, partitions: list[int]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._missing = set(partitions)
        self.done_at = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 2,
            }
        )

    @property
    def is_done(self) -> bool:
        return not self._missing

    def begin_again(self) -> None:
        """One record more for each, sent at once: the producer tries until a leader takes it."""
        self._missing = set(self._partitions)
        for partition in self._partitions:
            self._producer.produce(self._topic, b"x", partition=partition, on_delivery=self._on_delivery)

    def write(self) -> None:
        self._producer.poll(_TICK_SECONDS)

    def write_until_all_answered(self) -> None:
        self.begin_again()
        assert self._producer.flush(PATIENCE_SECONDS) == 0, "records are still waiting"

    def _on_delivery(self, error: Any, message: Any) -> None:
        assert error is None, error
        self._missing.discard(message.partition())
        self.done_at = time.monotonic()

    def close(self) -> None:
        self._producer.flush(PATIENCE_SECONDS)


def start_after_kill_seconds(cluster: AnyCluster, *, records: int, record_bytes: int) -> float:
    """A partition is filled, one of its brokers killed and started again: seconds from exec until it serves."""
    with fresh_topic(cluster, 1, replicas=REPLICAS) as topic:
        with touched(log_bytes(records=records, record_bytes=record_bytes) * REPLICAS):
            tools.produce(cluster, topic, records=records, record_bytes=record_bytes)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        await_in_sync(admin, topic)
        cluster.brokers[2].kill()
        seconds = cluster.brokers[2].start()
        await_in_sync(admin, topic)
        return seconds


def start_with_partitions_seconds(cluster: AnyCluster, *, partitions: int) -> float:
    """A broker that has that many is stopped cleanly and started again: seconds from exec until it serves."""
    with fresh_topic(cluster, partitions, replicas=REPLICAS) as topic:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        await_in_sync(admin, topic)
        cluster.brokers[2].stop()
        seconds = cluster.brokers[2].start()
        await_in_sync(admin, topic)
        return seconds


def partitions_of(admin: AdminClient, topic: str) -> Any:
    """By number, as some broker's metadata has it."""
    return admin.list_topics(topic, timeout=30).topics[topic].partitions


def await_in_sync(admin: AdminClient, topic: str) -> None:
    """Until all replicas of all partitions are."""
    wait_until(
        f"the replicas of {topic} are in sync",
        lambda: all(len(one.isrs) == REPLICAS for one in partitions_of(admin, topic).values()),
    )
