"""The requests that create the cluster's own topics."""

from __future__ import annotations

from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.requests import NewTopic
from odradek.metadata.image.topic_names import SHARE_GROUP_STATE, TRANSACTION_STATE
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC


def internal_topic(name: str, *, settings: Settings, machine_count: int) -> NewTopic:
    """The request that creates an internal topic.

    Kafka refuses to create one while there are fewer brokers than its replication factor (3 by default). A single Kafka
    broker has no groups until that setting is lowered. Here such a topic has as many replicas as there are brokers.
    """
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name=name,
            partition_count=settings.offsets_topic_num_partitions,
            replication_factor=_cap_factor(settings.offsets_topic_replication_factor, machine_count),
            config={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(max(settings.offsets_topic_segment_bytes, 1 << 20)),
            },
        )
    if name == TRANSACTION_STATE:
        factor = _cap_factor(settings.transaction_state_log_replication_factor, machine_count)
        return NewTopic(
            name=name,
            partition_count=settings.transaction_state_log_num_partitions,
            replication_factor=factor,
            config={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(min(settings.transaction_state_log_min_isr, factor)),
                "segment.bytes": str(max(settings.transaction_state_log_segment_bytes, 1 << 20)),
                "unclean.leader.election.enable": "false",
            },
        )
    assert name == SHARE_GROUP_STATE, "each internal topic is one of a coordinator"
    factor = _cap_factor(settings.share_coordinator_state_topic_replication_factor, machine_count)
    return NewTopic(
        name=name,
        partition_count=settings.share_coordinator_state_topic_num_partitions,
        replication_factor=factor,
        config={
            # As in Kafka, and no compaction: the coordinator deletes records below the oldest state in use.
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "compression.type": "producer",
            "min.insync.replicas": str(min(settings.share_coordinator_state_topic_min_isr, factor)),
            "segment.bytes": str(max(settings.share_coordinator_state_topic_segment_bytes, 1 << 20)),
        },
    )


def _cap_factor(factor: int, machine_count: int) -> int:
    return max(1, min(factor, machine_count))
