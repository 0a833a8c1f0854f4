"""Dead letters in tests: records for a topic, and what its dead-letter topic has, as kafka-python reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Producer

from tests.support.samples import BASE_TIME_MS


class Letter(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]

    def said(self, name: str) -> str:
        return dict(self.headers)[f"odradek.dlq.{name}"].decode()


def send(bootstrap: str, topic: str, values: Sequence[bytes | None]) -> None:
    """Values into partition 0, with a key and a header each."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            key=b"k%d" % number,
            partition=0,
            timestamp=BASE_TIME_MS + number,
            headers=[("trace", b"\x00%d" % number)],
        )
    assert producer.flush(30) == 0


def letters(bootstrap: str, topic: str) -> list[Letter]:
    """All dead letters, as kafka-python reads them."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed"
    )
    try:
        key = TopicPartition(topic, 0)
        consumer.assign([key])
        consumer.seek_to_beginning(key)
        end = consumer.end_offsets([key])[key]
        found: list[Letter] = []
        while consumer.position(key) < end:
            for records in consumer.poll(timeout_ms=500).values():
                found += [Letter(one.key, one.value, list(one.headers)) for one in records]
        return found
    finally:
        consumer.close()
