"""Keys of MirrorMaker 2 and Kafka Connect that may stand in a mirror's file and have no effect here, or are refused."""

from __future__ import annotations

from typing import Final

from odradek.client.unused_properties import UNUSED_PROPERTIES

# Connect's workers, their topics and REST; converters; the producers and consumers that unpack records. A mirror has
# none of these. `consumer.auto.offset.reset` is read before this table is asked.
UNUSED_PREFIXES: Final = (
    "access.control.",
    "admin.",
    "config.storage.",
    "consumer.",
    "errors.",
    "header.converter",
    "internal.",
    "inter.worker.",
    "key.converter",
    "listeners",
    "metrics.",
    "offset.flush.",
    "offset.storage.",
    "offsets.storage.",
    "plugin.",
    "predicates",
    "producer.",
    "response.http.",
    "rest.",
    "source.admin.",
    "source.consumer.",
    "source.producer.",
    "status.storage.",
    "target.admin.",
    "target.consumer.",
    "target.producer.",
    "task.",
    "topic.creation.",
    "topic.tracking.",
    "transaction.boundary",
    "transforms",
    "value.converter",
    "worker.",
)
UNUSED_KEYS: Final = UNUSED_PROPERTIES | {
    "acks",
    "add.source.alias.to.metrics",
    "auto.offset.reset",
    "batch.size",
    "compression.type",
    "connect.protocol",
    "connector.class",
    "connector.client.config.override.policy",
    "dedicated.mode.enable.internal.rest",
    "delivery.timeout.ms",
    "group.id",
    "isolation.level",
    "linger.ms",
    "offsets.topic.replication.factor",
    "rebalance.timeout.ms",
    "scheduled.rebalance.max.delay.ms",
    "tasks.max.enforce",
    "transactional.id",
}
# Code of the user's that MirrorMaker would run, by the class that it has without it.
CLASSES: Final = {
    "topic.filter.class": "DefaultTopicFilter",
    "group.filter.class": "DefaultGroupFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "forwarding.admin.class": "ForwardingAdmin",
}
RENAMED: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
}


def is_unused(key: str) -> bool:
    """Whether MirrorMaker knows this key, and a mirror has no use for it."""
    return key in UNUSED_KEYS or key.startswith(UNUSED_PREFIXES)
