"""Keys of Kafka 4.1's admin client, producer and consumer that are valid in a client.properties and unused here.
`properties` has the keys of security, and those with a verb's option. Imported only for an unknown key.
"""

from __future__ import annotations

from typing import Final

UNUSED_PROPERTIES: Final = frozenset({
    "allow.auto.create.topics", "auto.commit.interval.ms", "bootstrap.controllers", "buffer.memory",
    "check.crcs", "client.dns.lookup", "client.rack", "compression.gzip.level", "compression.lz4.level",
    "compression.zstd.level", "connections.max.idle.ms", "enable.auto.commit", "enable.idempotence",
    "enable.metrics.push", "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "group.instance.id", "group.protocol", "group.remote.assignor",
    "heartbeat.interval.ms", "interceptor.classes", "key.deserializer", "key.serializer", "max.block.ms",
    "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms",
    "max.poll.records", "max.request.size", "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys",
    "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries",
    "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms",
    "share.acknowledgement.mode", "socket.connection.setup.timeout.max.ms",
    "transaction.two.phase.commit.enable", "value.deserializer", "value.serializer",
})  # fmt: skip
