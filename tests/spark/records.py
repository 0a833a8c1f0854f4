"""Records that the Spark tests send and look for, outside of Spark: numbered, timed, over several partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support.samples import BASE_TIME_MS


def send(bootstrap: str, topic: str, values: Sequence[bytes], partitions: int, *, start: int = 0) -> None:
    """Values with the number as key, round robin over the partitions, a second apart in each."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    for number, value in enumerate(values, start):
        producer.produce(
            topic,
            value,
            key=b"%d" % number,
            partition=number % partitions,
            timestamp=BASE_TIME_MS + number // partitions * 1000,
            headers=[("n", b"%d" % number)],
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def fetched(
    bootstrap: str, topic: str, partitions: int, count: int
) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of `count` records, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    while len(found) < count and (batch := consumer.consume(count - len(found), 20)):
        found += [
            (one.partition() or 0, one.offset() or 0, one.key(), one.value())
            for one in batch
            if one.error() is None
        ]
    consumer.close()
    return [(key, value) for _, _, key, value in sorted(found, key=lambda one: one[:2])]


def source(spark: Any, bootstrap: str, topic: str, **options: str) -> Any:
    """A frame of a topic's records; `options` are the connector's."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    if not options.keys() & {"assign", "subscribe", "subscribePattern"}:
        reader = reader.option("subscribe", topic)
    return reader.options(**options).load()


def values_of(frame: Any) -> list[bytes]:
    """Every value of a frame, sorted: a record that is there twice counts twice."""
    return sorted(bytes(row.value) for row in frame.select("value").collect())
