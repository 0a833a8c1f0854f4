"""The nodes of consumer groups in ZooKeeper (document 004, 5.6), where Kafka's own consumers have them."""

from __future__ import annotations

from odradek.foundation.ids import TopicPartition

TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"


def group(name: str) -> str:
    return f"{CONSUMERS}/{name}"


def ids(name: str) -> str:
    """Ephemeral children: one for each consumer, with its registration."""
    return f"{CONSUMERS}/{name}/ids"


def consumer_id(name: str, consumer: str) -> str:
    return f"{ids(name)}/{consumer}"


def owners(name: str, topic: str) -> str:
    """Ephemeral children: one for each owned partition, with the id of the owning thread."""
    return f"{CONSUMERS}/{name}/owners/{topic}"


def owner(name: str, partition: TopicPartition) -> str:
    return f"{owners(name, partition.topic)}/{partition.partition}"


def offsets(name: str, topic: str) -> str:
    """Persistent children: one for each partition, with the offset of the next message to read as decimal text."""
    return f"{CONSUMERS}/{name}/offsets/{topic}"


def offset(name: str, partition: TopicPartition) -> str:
    return f"{offsets(name, partition.topic)}/{partition.partition}"


def topic(name: str) -> str:
    """A topic's partitions, written by the controller."""
    return f"{TOPICS}/{name}"
