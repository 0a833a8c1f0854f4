"""What the cluster looks like to a client: brokers, topics, leaders, as frozen values, and the cache of them.

The cache answers from memory until a topic is unknown, the picture is older than its allowed age, or a caller says
that it proved wrong (`invalidate`). Questions for the same picture that come while one is under way share its answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.client.addresses import Address
from odradek.client.errors import error_for
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition

NO_LEADER = -1
NO_TOPIC_ID = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker as it advertises itself."""

    id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: who leads it (`NO_LEADER` when nobody does) and who holds it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic with its partitions in order; `error_code` is not 0 when the broker could not describe it."""

    name: str
    id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    error_code: int

    def error(self) -> OdradekError | None:
        """Why the topic could not be described."""
        return error_for(self.error_code, about=f"topic {self.name!r}")


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster at one moment. Holds the topics that were asked about."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)

    def topic(self, name: str) -> TopicInfo:
        """The topic. Raises UnknownTopicOrPartition or the error that the broker gave for it."""
        found = self.topics.get(name)
        if found is None:
            raise UnknownTopicOrPartition(
                f"there is no topic {name!r}; `odradek topics list` shows those that are"
            )
        failure = found.error()
        if isinstance(failure, UnknownTopicOrPartition):
            raise UnknownTopicOrPartition(
                f"there is no topic {name!r}; `odradek topics list` shows those that are"
            )
        if failure is not None:
            raise failure
        return found

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo:
        """The partition. Raises UnknownTopicOrPartition."""
        topic = self.topic(topic_partition.topic)
        for partition in topic.partitions:
            if partition.partition == topic_partition.partition:
                return partition
        raise UnknownTopicOrPartition(
            f"topic {topic.name!r} has no partition {topic_partition.partition}; it has {len(topic.partitions)}, "
            "numbered from 0"
        )


def cluster_info(response: Any) -> ClusterInfo:
    """A Metadata response as a value."""
    brokers = {
        int(broker.node_id): BrokerInfo(
            id=int(broker.node_id), address=Address(broker.host, int(broker.port)), rack=broker.rack
        )
        for broker in response.brokers
    }
    topics = {str(topic.name): _topic_info(topic) for topic in response.topics if topic.name is not None}
    return ClusterInfo(
        cluster_id=getattr(response, "cluster_id", None),
        controller_id=int(response.controller_id),
        brokers=brokers,
        topics=topics,
    )


def _topic_info(topic: Any) -> TopicInfo:
    partitions = (
        PartitionInfo(
            partition=int(partition.partition_index),
            leader=int(partition.leader_id),
            leader_epoch=int(getattr(partition, "leader_epoch", -1)),
            replicas=tuple(map(int, partition.replica_nodes)),
            in_sync_replicas=tuple(map(int, partition.isr_nodes)),
            offline_replicas=tuple(map(int, getattr(partition, "offline_replicas", ()))),
            error_code=int(partition.error_code),
        )
        for partition in topic.partitions
    )
    return TopicInfo(
        name=str(topic.name),
        id=getattr(topic, "topic_id", None) or NO_TOPIC_ID,
        is_internal=bool(topic.is_internal),
        partitions=tuple(sorted(partitions, key=lambda partition: partition.partition)),
        error_code=int(topic.error_code),
    )
