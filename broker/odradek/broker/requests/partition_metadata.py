"""A topic's partitions as answers describe them: their leaders, as reachable over the client's listener."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from odradek.foundation.errors import LeaderNotAvailable, ListenerNotFound
from odradek.metadata.image.image import BrokerImage, ClusterImage, PartitionImage
from odradek.wire.protocol.errors import error_code


def reachable_brokers(image: ClusterImage, listener_name: str) -> frozenset[int]:
    """The live brokers that listen under this name."""
    return frozenset(broker.id for broker in image.brokers.values() if listener_name in broker.endpoints)


def broker_addresses(
    brokers: Mapping[int, BrokerImage], listener_name: str
) -> list[tuple[int, str, int, str | None]]:
    """Id, host, port and rack of those brokers that listen under this name, by id."""
    return [
        (broker.id, *broker.endpoints[listener_name], broker.rack)
        for _, broker in sorted(brokers.items())
        if listener_name in broker.endpoints
    ]


def controller_for_clients(image: ClusterImage) -> int:
    """The broker that answers name as the controller; -1 without any broker.

    The controller of a cluster is no broker, as in Kafka since 4.0, so this is any broker: all of them forward. On a
    single node it is the broker itself.
    """
    if image.controller_id in image.brokers:
        return image.controller_id
    return min(image.brokers, default=-1)


def partition_fields(
    partitions: Iterable[PartitionImage], *, live: Collection[int], reachable: Collection[int]
) -> list[dict[str, object]]:
    """The fields that Metadata and DescribeTopicPartitions share. `live` are all brokers, `reachable` those on the
    listener.
    """
    fields: list[dict[str, object]] = []
    for partition in partitions:
        leader = partition.leader
        code = 0
        if leader not in reachable:
            code = error_code(ListenerNotFound() if leader in live else LeaderNotAvailable())
            leader = -1
        fields.append(
            {
                "error_code": code,
                "partition_index": partition.partition,
                "leader_id": leader,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replicas,
                "isr_nodes": partition.isr,
                "offline_replicas": [broker for broker in partition.replicas if broker not in live],
            }
        )
    return fields
