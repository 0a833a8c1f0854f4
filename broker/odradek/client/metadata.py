"""A client's metadata of the cluster: brokers, topics, leaders, as frozen values, and their cache.

The cache answers from memory until a topic is unknown, the metadata is too old, or a caller invalidates it. Requests
for the same metadata share one answer. `NewestLeaders` ignores older leaders, which a partitioned broker may report.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from odradek.client.addresses import Address
from odradek.client.errors import NoSuchBroker, error_for_api
from odradek.foundation.errors import InvalidTopic, OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.cluster import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1
# Each arrives at least a second after the one before it.
PICTURES_WITHOUT_EPOCH_MAX = 10
NO_TOPIC_ID = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker at its advertised address."""

    id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: its leader (or `NO_LEADER`), the leader's epoch (-1: unknown), and its replicas."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic with its partitions in order. `error_code` is not 0 if the broker could not describe it."""

    name: str
    id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    error_code: int

    def error(self) -> OdradekError | None:
        """Why the topic could not be described."""
        failure = error_for_api(
            ApiKey.METADATA, self.error_code, about=f"topic {self.name!r}", topic=self.name
        )
        if isinstance(failure, InvalidTopic):
            return InvalidTopic(
                f"no topic can be named {self.name!r}: "
                "a name has up to 249 letters and digits of ASCII, '.', '_' and '-'"
            )
        return failure

    def no_partition(self, number: int) -> UnknownTopicOrPartition:
        """The error for the number of a partition that the topic does not have."""
        return UnknownTopicOrPartition(
            f"topic {self.name!r} has no partition {number}; it has {len(self.partitions)}, numbered from 0"
        )


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster at one moment, with the topics that were requested."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)

    def topic(self, name: str) -> TopicInfo:
        """The topic. Raises UnknownTopicOrPartition or the error that the broker gave for it."""
        found = self.topics.get(name)
        failure = None if found is None else found.error()
        if found is None or isinstance(failure, UnknownTopicOrPartition):
            raise UnknownTopicOrPartition(
                f"there is no topic {name!r}; `odradek topics list` lists all topics", missing_name=name
            )
        if failure is not None:
            raise failure
        return found

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo:
        """The partition. Raises UnknownTopicOrPartition."""
        topic, number = self.topic(topic_partition.topic), topic_partition.partition
        # Of 10,000 partitions each is found at its place.
        if 0 <= number < len(topic.partitions) and topic.partitions[number].partition == number:
            return topic.partitions[number]
        for partition in topic.partitions:
            if partition.partition == number:
                return partition
        raise topic.no_partition(number)

    def find_partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """The partition, or None if it is unknown."""
        try:
            return self.partition(topic_partition)
        except OdradekError:
            return None

    def leader(self, topic_partition: TopicPartition) -> int:
        """The partition's leader, or `NO_LEADER`, also if the partition is unknown."""
        found = self.find_partition(topic_partition)
        return NO_LEADER if found is None else found.leader

    def partitions(self, name: str, numbers: Iterable[int] | None = None) -> list[TopicPartition]:
        """The partitions of a topic, or those of these numbers. Raises UnknownTopicOrPartition."""
        topic = self.topic(name)
        known = [one.partition for one in topic.partitions]
        wanted = known if numbers is None else list(numbers)
        for number in set(wanted).difference(known):
            raise topic.no_partition(number)
        return [TopicPartition(name, number) for number in wanted]

    def require_brokers(self, broker_ids: Iterable[int]) -> None:
        """Raises NoSuchBroker for the first broker that is not live."""
        for broker_id in broker_ids:
            if broker_id not in self.brokers:
                live = ", ".join(map(str, sorted(self.brokers))) or "none"
                raise NoSuchBroker(f"there is no live broker {broker_id}; the cluster's brokers are: {live}")


class NewestLeaders:
    """The newest known leader of each partition of the topics in the metadata, by the leader's epoch (KIP-320)."""

    def __init__(self) -> None:
        self._newest: dict[TopicPartition, tuple[uuid.UUID, PartitionInfo]] = {}
        # The number of answers since an epoch was noted that none of them has.
        self._pictures_without: dict[TopicPartition, int] = {}

    def note(self, key: TopicPartition, leader_epoch: int) -> bool:
        """Note an epoch that was read. True when the metadata is older, so the present leader is unknown.

        Several answers without that epoch cancel the note: the topic may have been deleted.
        """
        topic_id, known = self._newest.get(key, (None, None))
        if topic_id is None or known is None or known.leader_epoch >= leader_epoch:
            return False
        if self._is_given_up(key):
            return False
        self._newest[key] = (topic_id, replace(known, leader=NO_LEADER, leader_epoch=leader_epoch))
        self._pictures_without[key] = 0
        return True

    def merge_leaders(self, told: ClusterInfo) -> ClusterInfo:
        """The metadata, with newer leaders in place of older ones.

        Topics that are not in it are forgotten. A topic with another id is another topic, whose epochs start again.
        """
        newest: dict[TopicPartition, tuple[uuid.UUID, PartitionInfo]] = {}
        topics: dict[str, TopicInfo] = {}
        for name, topic in told.topics.items():
            partitions = []
            for partition in topic.partitions:
                key = TopicPartition(name, partition.partition)
                known_id, known = self._newest.get(key, (None, partition))
                is_newer = known_id == topic.id and known.leader_epoch > partition.leader_epoch
                if not is_newer and (known_id != topic.id or not self._is_given_up(key)):
                    self._pictures_without.pop(key, None)
                if not is_newer or self._is_doubtful(key):
                    known = partition
                newest[key] = (topic.id, known)
                partitions.append(known)
            topics[name] = replace(topic, partitions=tuple(partitions))
        for key, one in self._newest.items():
            # An answer without a topic's description leaves the known leaders unchanged.
            if key.topic in told.topics and not told.topics[key.topic].partitions:
                newest.setdefault(key, one)
        self._newest = newest
        for key in self._pictures_without.keys() - newest.keys():
            del self._pictures_without[key]
        return replace(told, topics=topics)

    def _is_doubtful(self, key: TopicPartition) -> bool:
        """Whether an epoch that was noted is in none of many answers."""
        count = self._pictures_without.get(key)
        if count is None:
            return False
        self._pictures_without[key] = count + 1
        return self._is_given_up(key)

    def _is_given_up(self, key: TopicPartition) -> bool:
        return self._pictures_without.get(key, 0) >= PICTURES_WITHOUT_EPOCH_MAX


def cluster_info(response: MetadataResponse) -> ClusterInfo:
    brokers = {
        broker.node_id: BrokerInfo(
            id=broker.node_id, address=Address(broker.host, broker.port), rack=broker.rack
        )
        for broker in response.brokers
    }
    topics = {topic.name: _topic_info(topic) for topic in response.topics if topic.name is not None}
    return ClusterInfo(
        cluster_id=getattr(response, "cluster_id", None),
        controller_id=response.controller_id,
        brokers=brokers,
        topics=topics,
    )


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    topic_id = getattr(topic, "topic_id", None) or NO_TOPIC_ID
    # Brokers without topic ids (Metadata below 10) may report old epochs, or epochs of a deleted topic of this name.
    has_epochs = topic_id != NO_TOPIC_ID
    partitions = (
        PartitionInfo(
            partition=partition.partition_index,
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch if has_epochs else -1,
            replicas=tuple(map(int, partition.replica_nodes)),
            in_sync_replicas=tuple(map(int, partition.isr_nodes)),
            offline_replicas=tuple(map(int, getattr(partition, "offline_replicas", ()))),
            error_code=int(partition.error_code),
        )
        for partition in topic.partitions
    )
    return TopicInfo(
        name=str(topic.name),
        id=topic_id,
        is_internal=bool(topic.is_internal),
        partitions=tuple(sorted(partitions, key=lambda partition: partition.partition)),
        error_code=int(topic.error_code),
    )
