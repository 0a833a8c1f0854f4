"""Reads a whole partition as a client without a group does."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

SECONDS_MAX = 60


def is_end(error: KafkaError) -> bool:
    """Whether what librdkafka reports is a partition's end. Raises AssertionError for what it does not recover from.

    It reports a lost connection in the same way, and connects again.
    """
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    assert error.retriable() or not error.fatal(), error
    return False


def read_partition(bootstrap: str, topic: str, **settings: str) -> Iterator[Message]:
    """The messages of partition 0, first to last."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            **settings,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, "no answer from the broker"
            error = message.error()
            if error is None:
                yield message
            elif is_end(error):
                return
    finally:
        consumer.close()


def all_records(bootstrap: str, topic: str, **settings: str) -> list[tuple[bytes, bytes]]:
    """Key and value of each record of partition 0, first to last; an empty value for a tombstone."""
    return [
        (message.key() or b"", message.value() or b"")
        for message in read_partition(bootstrap, topic, **settings)
    ]
