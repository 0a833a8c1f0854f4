"""Reads a whole partition as a client without a group does."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

SECONDS_MAX = 60


def all_records(bootstrap: str, topic: str, **settings: str) -> list[tuple[bytes, bytes]]:
    """Key and value of each record of partition 0, in order; an empty value for a tombstone."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, "no answer from the broker"
        if message.error():
            break
        found.append((message.key() or b"", message.value() or b""))
    consumer.close()
    return found
