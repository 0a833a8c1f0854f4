"""Keys of Kafka 4.1 that this broker knows but does not use, and those of older Kafkas.

They are accepted without a warning, because a `server.properties` for Kafka should work here. They are described like
every other key. Those that promise protection are refused: see `protection`. This module is imported only for a key
that is not the broker's own, or for a list of all keys. Each row: key, kind, default as text, allowed values, scope,
and whether it is internal.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.broker_settings.protection import protection_setting_of
from odradek.foundation.setting_types import Allowed, EachOf, Kind, NotEmpty, OneOf, Range, Scope, Setting

_READ: Final = Scope.READ_ONLY
_BROKER: Final = Scope.PER_BROKER
_CLUSTER: Final = Scope.CLUSTER_WIDE
# Kafka's documents leave the key out.
_INTERNAL: Final = True
_PERSISTER: Final = "org.apache.kafka.server.share.persister.DefaultStatePersister"
_PRINCIPAL_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_REMOTE_METADATA: Final = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
)
_TOKEN_RETRIEVER: Final = "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"
_ALGORITHMS: Final = OneOf("ES256", "RS256", any_case=True)

# The subject of each family of keys, and its prefixes; the first that matches gives a key its description.
_FAMILIES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("share groups", ("group.share.", "share.")),
    ("groups of Kafka Streams on the broker", ("group.streams.",)),
    ("tiered storage", ("remote.",)),
    ("authentication with SASL", ("sasl.",)),
    ("encryption with TLS", ("ssl.",)),
    ("delegation tokens", ("delegation.token.",)),
    ("authentication by classes of Java", ("principal.builder.", "security.providers")),
    ("authorisation by classes of Java", ("early.start.listeners",)),
    ("policies by classes of Java", ("alter.config.policy.", "create.topic.policy.")),
    ("quotas by classes of Java", ("client.quota.callback.",)),
    ("the measuring of quotas", ("alter.log.dirs.replication.quota.", "replication.quota.")),
    ("Kafka's metadata quorum (KRaft)", ("controller.", "metadata.", "internal.metadata.", "process.roles")),
    ("Kafka's metadata quorum (KRaft)", ("initial.broker.registration.", "server.max.startup.")),
    ("Kafka's metadata quorum (KRaft)", ("unclean.leader.election.interval.",)),
    ("metrics of the Java virtual machine", ("kafka.metrics.", "metric")),
    ("metrics that clients push", ("telemetry.",)),
    ("waiting to write the commits of several groups at once", ("group.coordinator.append.",)),
    ("periodic matching of patterns (they are matched when topics change)", ("group.consumer.regex.",)),
    ("a separate round for start offsets (they are written with the recovery points)", ("log.flush.",)),
    ("connections between brokers", ("socket.connection.setup.",)),
    ("features in development in Kafka", ("unstable.",)),
    ("Kafka's threads and its queues of waiting requests", ("",)),
)

# Keys of Kafka before 4.0, mostly its life with ZooKeeper: known by their beginning.
RETIRED_PREFIXES: Final = (
    "zookeeper.",
    "password.encoder.",
    "broker.id.generation.enable",
    "reserved.broker.max.id",
    "inter.broker.protocol.version",
    "log.message.format.version",
    "log.message.downconversion.enable",
    "log.message.timestamp.difference.max.ms",
    "leader.imbalance.per.broker.percentage",
    "control.plane.listener.name",
    "offsets.commit.required.acks",
    "delegation.token.master.key",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "auto.include.jmx.reporter",
    "group.coordinator.new.enable",
    "eligible.leader.replicas.enable",
    "group.share.max.groups",
    "metadata.log.segment.min.bytes",
    "host.name",
    "port",
    "advertised.host.name",
    "advertised.port",
)

_Unmarked = tuple[str, Kind, str | None, Allowed | None, Scope]
_Row = _Unmarked | tuple[str, Kind, str | None, Allowed | None, Scope, bool]

_ROWS: Final[tuple[_Row, ...]] = (
    ("alter.config.policy.class.name", Kind.CLASS, None, None, _READ),
    ("alter.log.dirs.replication.quota.window.num", Kind.INT, "11", Range(1), _READ),
    ("alter.log.dirs.replication.quota.window.size.seconds", Kind.INT, "1", Range(1), _READ),
    ("background.threads", Kind.INT, "10", Range(1), _CLUSTER),
    ("client.quota.callback.class", Kind.CLASS, None, None, _READ),
    ("controller.performance.always.log.threshold.ms", Kind.LONG, "2000", Range(0), _READ, _INTERNAL),
    ("controller.performance.sample.period.ms", Kind.LONG, "60000", Range(100), _READ, _INTERNAL),
    ("controller.quorum.append.linger.ms", Kind.INT, "25", Range(0), _READ),
    ("controller.quorum.bootstrap.servers", Kind.LIST, "", None, _READ),
    ("controller.quorum.election.backoff.max.ms", Kind.INT, "1000", Range(0), _READ),
    ("controller.quorum.election.timeout.ms", Kind.INT, "1000", Range(0), _READ),
    ("controller.quorum.fetch.timeout.ms", Kind.INT, "2000", Range(0), _READ),
    ("controller.quorum.request.timeout.ms", Kind.INT, "2000", Range(0), _READ),
    ("controller.quorum.retry.backoff.ms", Kind.INT, "20", Range(0), _READ),
    ("controller.quorum.voters", Kind.LIST, "", None, _READ),
    ("create.topic.policy.class.name", Kind.CLASS, None, None, _READ),
    ("delegation.token.expiry.check.interval.ms", Kind.LONG, "3600000", Range(1), _READ),
    ("delete.records.purgatory.purge.interval.requests", Kind.INT, "1", None, _READ),
    ("early.start.listeners", Kind.STRING, None, None, _READ),
    ("fetch.purgatory.purge.interval.requests", Kind.INT, "1000", None, _READ),
    ("group.coordinator.threads", Kind.INT, "4", Range(1), _READ),
    ("group.share.assignors", Kind.LIST, "simple", None, _READ),
    ("group.share.delivery.count.limit", Kind.INT, "5", Range(2, 10), _READ),
    ("group.share.enable", Kind.BOOLEAN, "false", None, _READ, _INTERNAL),
    ("group.share.heartbeat.interval.ms", Kind.INT, "5000", Range(1), _READ),
    ("group.share.max.heartbeat.interval.ms", Kind.INT, "15000", Range(1), _READ),
    ("group.share.max.record.lock.duration.ms", Kind.INT, "60000", Range(30000, 3600000), _READ),
    ("group.share.max.session.timeout.ms", Kind.INT, "60000", Range(1), _READ),
    ("group.share.max.share.sessions", Kind.INT, "2000", Range(1), _READ),
    ("group.share.max.size", Kind.INT, "200", Range(1, 1000), _READ),
    ("group.share.min.heartbeat.interval.ms", Kind.INT, "5000", Range(1), _READ),
    ("group.share.min.record.lock.duration.ms", Kind.INT, "15000", Range(1000, 30000), _READ),
    ("group.share.min.session.timeout.ms", Kind.INT, "45000", Range(1), _READ),
    ("group.share.partition.max.record.locks", Kind.INT, "2000", Range(100, 10000), _READ),
    ("group.share.persister.class.name", Kind.STRING, _PERSISTER, None, _READ, _INTERNAL),
    ("group.share.record.lock.duration.ms", Kind.INT, "30000", Range(1000, 3600000), _READ),
    ("group.share.session.timeout.ms", Kind.INT, "45000", Range(1), _READ),
    ("group.streams.heartbeat.interval.ms", Kind.INT, "5000", Range(1), _READ),
    ("group.streams.max.heartbeat.interval.ms", Kind.INT, "15000", Range(1), _READ),
    ("group.streams.max.session.timeout.ms", Kind.INT, "60000", Range(1), _READ),
    ("group.streams.max.size", Kind.INT, "2147483647", Range(1), _READ),
    ("group.streams.max.standby.replicas", Kind.INT, "2", Range(0), _READ),
    ("group.streams.min.heartbeat.interval.ms", Kind.INT, "5000", Range(1), _READ),
    ("group.streams.min.session.timeout.ms", Kind.INT, "45000", Range(1), _READ),
    ("group.streams.num.standby.replicas", Kind.INT, "0", Range(0), _READ),
    ("group.streams.session.timeout.ms", Kind.INT, "45000", Range(1), _READ),
    ("initial.broker.registration.timeout.ms", Kind.INT, "60000", None, _READ),
    ("internal.metadata.delete.delay.millis", Kind.LONG, "60000", None, _READ, _INTERNAL),
    ("internal.metadata.log.segment.bytes", Kind.INT, None, None, _READ, _INTERNAL),
    ("internal.metadata.max.batch.size.in.bytes", Kind.INT, "8388608", None, _READ, _INTERNAL),
    ("internal.metadata.max.fetch.size.in.bytes", Kind.INT, "8388608", None, _READ, _INTERNAL),
    ("kafka.metrics.polling.interval.secs", Kind.INT, "10", Range(1), _READ),
    ("kafka.metrics.reporters", Kind.LIST, "", None, _READ),
    ("metadata.log.dir", Kind.STRING, None, None, _READ),
    ("metadata.log.max.record.bytes.between.snapshots", Kind.LONG, "20971520", Range(1), _READ),
    ("metadata.log.max.snapshot.interval.ms", Kind.LONG, "3600000", Range(0), _READ),
    ("metadata.log.segment.bytes", Kind.INT, "1073741824", Range(8388608), _READ),
    ("metadata.log.segment.ms", Kind.LONG, "604800000", None, _READ),
    ("metadata.max.idle.interval.ms", Kind.INT, "500", Range(0), _READ),
    ("metadata.max.retention.bytes", Kind.LONG, "104857600", None, _READ),
    ("metadata.max.retention.ms", Kind.LONG, "604800000", None, _READ),
    ("metric.reporters", Kind.LIST, "org.apache.kafka.common.metrics.JmxReporter", None, _CLUSTER),
    ("metrics.num.samples", Kind.INT, "2", Range(1), _READ),
    ("metrics.recording.level", Kind.STRING, "INFO", None, _READ),
    ("metrics.sample.window.ms", Kind.LONG, "30000", Range(1), _READ),
    ("num.io.threads", Kind.INT, "8", Range(1), _CLUSTER),
    ("num.network.threads", Kind.INT, "3", Range(1), _CLUSTER),
    ("num.replica.alter.log.dirs.threads", Kind.INT, None, None, _READ),
    ("principal.builder.class", Kind.CLASS, _PRINCIPAL_BUILDER, None, _BROKER),
    ("process.roles", Kind.LIST, None, EachOf("broker", "controller"), _READ),
    ("producer.purgatory.purge.interval.requests", Kind.INT, "1000", None, _READ),
    ("remote.fetch.max.wait.ms", Kind.INT, "500", Range(1), _CLUSTER),
    ("remote.list.offsets.request.timeout.ms", Kind.LONG, "30000", Range(1), _CLUSTER),
    ("remote.log.index.file.cache.total.size.bytes", Kind.LONG, "1073741824", Range(1), _CLUSTER),
    ("remote.log.manager.copier.thread.pool.size", Kind.INT, "10", Range(1), _CLUSTER),
    ("remote.log.manager.copy.max.bytes.per.second", Kind.LONG, "9223372036854775807", Range(1), _CLUSTER),
    ("remote.log.manager.copy.quota.window.num", Kind.INT, "11", Range(1), _READ),
    ("remote.log.manager.copy.quota.window.size.seconds", Kind.INT, "1", Range(1), _READ),
    ("remote.log.manager.expiration.thread.pool.size", Kind.INT, "10", Range(1), _CLUSTER),
    ("remote.log.manager.fetch.max.bytes.per.second", Kind.LONG, "9223372036854775807", Range(1), _CLUSTER),
    ("remote.log.manager.fetch.quota.window.num", Kind.INT, "11", Range(1), _READ),
    ("remote.log.manager.fetch.quota.window.size.seconds", Kind.INT, "1", Range(1), _READ),
    ("remote.log.manager.task.interval.ms", Kind.LONG, "30000", Range(1), _READ),
    ("remote.log.manager.task.retry.backoff.max.ms", Kind.LONG, "30000", Range(1), _READ, _INTERNAL),
    ("remote.log.manager.task.retry.backoff.ms", Kind.LONG, "500", Range(1), _READ, _INTERNAL),
    ("remote.log.manager.task.retry.jitter", Kind.DOUBLE, "0.2", Range(0, 0.5), _READ, _INTERNAL),
    ("remote.log.manager.thread.pool.size", Kind.INT, "2", Range(1), _READ),
    ("remote.log.metadata.custom.metadata.max.bytes", Kind.INT, "128", Range(0), _READ),
    ("remote.log.metadata.manager.class.name", Kind.STRING, _REMOTE_METADATA, NotEmpty(), _READ),
    ("remote.log.metadata.manager.class.path", Kind.STRING, None, None, _READ),
    ("remote.log.metadata.manager.impl.prefix", Kind.STRING, "rlmm.config.", NotEmpty(), _READ),
    ("remote.log.metadata.manager.listener.name", Kind.STRING, None, NotEmpty(), _READ),
    ("remote.log.reader.max.pending.tasks", Kind.INT, "100", Range(1), _READ),
    ("remote.log.reader.threads", Kind.INT, "10", Range(1), _CLUSTER),
    ("remote.log.storage.manager.class.name", Kind.STRING, None, NotEmpty(), _READ),
    ("remote.log.storage.manager.class.path", Kind.STRING, None, None, _READ),
    ("remote.log.storage.manager.impl.prefix", Kind.STRING, "rsm.config.", NotEmpty(), _READ),
    ("remote.log.storage.system.enable", Kind.BOOLEAN, "false", None, _READ),
    ("replication.quota.window.num", Kind.INT, "11", Range(1), _READ),
    ("replication.quota.window.size.seconds", Kind.INT, "1", Range(1), _READ),
    ("sasl.client.callback.handler.class", Kind.CLASS, None, None, _READ),
    ("sasl.kerberos.kinit.cmd", Kind.STRING, "/usr/bin/kinit", None, _BROKER),
    ("sasl.kerberos.min.time.before.relogin", Kind.LONG, "60000", None, _BROKER),
    ("sasl.kerberos.principal.to.local.rules", Kind.LIST, "DEFAULT", None, _BROKER),
    ("sasl.kerberos.service.name", Kind.STRING, None, None, _BROKER),
    ("sasl.kerberos.ticket.renew.jitter", Kind.DOUBLE, "0.05", None, _BROKER),
    ("sasl.kerberos.ticket.renew.window.factor", Kind.DOUBLE, "0.8", None, _BROKER),
    ("sasl.login.class", Kind.CLASS, None, None, _READ),
    ("sasl.login.connect.timeout.ms", Kind.INT, None, None, _READ),
    ("sasl.login.read.timeout.ms", Kind.INT, None, None, _READ),
    ("sasl.login.refresh.buffer.seconds", Kind.SHORT, "300", None, _BROKER),
    ("sasl.login.refresh.min.period.seconds", Kind.SHORT, "60", None, _BROKER),
    ("sasl.login.refresh.window.factor", Kind.DOUBLE, "0.8", None, _BROKER),
    ("sasl.login.refresh.window.jitter", Kind.DOUBLE, "0.05", None, _BROKER),
    ("sasl.login.retry.backoff.max.ms", Kind.LONG, "10000", None, _READ),
    ("sasl.login.retry.backoff.ms", Kind.LONG, "100", None, _READ),
    ("sasl.oauthbearer.assertion.algorithm", Kind.STRING, "RS256", _ALGORITHMS, _READ),
    ("sasl.oauthbearer.assertion.claim.aud", Kind.STRING, None, None, _READ),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", Kind.INT, "300", Range(0, 86400), _READ),
    ("sasl.oauthbearer.assertion.claim.iss", Kind.STRING, None, None, _READ),
    ("sasl.oauthbearer.assertion.claim.jti.include", Kind.BOOLEAN, "false", None, _READ),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", Kind.INT, "60", Range(0, 3600), _READ),
    ("sasl.oauthbearer.assertion.claim.sub", Kind.STRING, None, None, _READ),
    ("sasl.oauthbearer.assertion.file", Kind.STRING, None, None, _READ),
    ("sasl.oauthbearer.assertion.private.key.file", Kind.STRING, None, None, _READ),
    ("sasl.oauthbearer.assertion.private.key.passphrase", Kind.PASSWORD, None, None, _READ),
    ("sasl.oauthbearer.assertion.template.file", Kind.STRING, None, None, _READ),
    ("sasl.oauthbearer.jwt.retriever.class", Kind.CLASS, _TOKEN_RETRIEVER, None, _READ),
    ("security.providers", Kind.STRING, None, None, _READ),
    ("server.max.startup.time.ms", Kind.LONG, "9223372036854775807", Range(0), _READ, _INTERNAL),
    ("share.coordinator.append.linger.ms", Kind.INT, "5", Range(0), _READ),
    ("share.coordinator.cold.partition.snapshot.interval.ms", Kind.INT, "300000", Range(1), _READ, _INTERNAL),
    ("share.coordinator.load.buffer.size", Kind.INT, "5242880", Range(1), _READ),
    ("share.coordinator.snapshot.update.records.per.snapshot", Kind.INT, "500", Range(0), _READ),
    ("share.coordinator.state.topic.compression.codec", Kind.INT, "0", None, _READ),
    ("share.coordinator.state.topic.min.isr", Kind.SHORT, "2", Range(1), _READ),
    ("share.coordinator.state.topic.num.partitions", Kind.INT, "50", Range(1), _READ),
    ("share.coordinator.state.topic.prune.interval.ms", Kind.INT, "300000", Range(1), _READ, _INTERNAL),
    ("share.coordinator.state.topic.replication.factor", Kind.SHORT, "3", Range(1), _READ),
    ("share.coordinator.state.topic.segment.bytes", Kind.INT, "104857600", Range(1), _READ),
    ("share.coordinator.threads", Kind.INT, "1", Range(1), _READ),
    ("share.coordinator.write.timeout.ms", Kind.INT, "5000", Range(1), _READ),
    ("share.fetch.purgatory.purge.interval.requests", Kind.INT, "1000", None, _READ),
    ("socket.connection.setup.timeout.max.ms", Kind.LONG, "30000", None, _READ),
    ("socket.connection.setup.timeout.ms", Kind.LONG, "10000", None, _READ),
    ("ssl.allow.dn.changes", Kind.BOOLEAN, "false", None, _READ),
    ("ssl.allow.san.changes", Kind.BOOLEAN, "false", None, _READ),
    ("ssl.engine.factory.class", Kind.CLASS, None, None, _BROKER),
    ("ssl.keymanager.algorithm", Kind.STRING, "SunX509", None, _BROKER),
    ("ssl.provider", Kind.STRING, None, None, _BROKER),
    ("ssl.secure.random.implementation", Kind.STRING, None, None, _BROKER),
    ("ssl.trustmanager.algorithm", Kind.STRING, "PKIX", None, _BROKER),
    ("telemetry.max.bytes", Kind.INT, "1048576", Range(1), _READ),
    ("unclean.leader.election.interval.ms", Kind.LONG, "300000", Range(1), _READ, _INTERNAL),
    ("unstable.api.versions.enable", Kind.BOOLEAN, "false", None, _READ, _INTERNAL),
    ("unstable.feature.versions.enable", Kind.BOOLEAN, "false", None, _READ, _INTERNAL),
    ("group.consumer.regex.refresh.interval.ms", Kind.INT, "600000", Range(10000), _READ, _INTERNAL),
    ("group.coordinator.append.linger.ms", Kind.INT, "5", Range(0), _READ),
    ("log.flush.start.offset.checkpoint.interval.ms", Kind.INT, "60000", Range(0), _READ),
    ("queued.max.requests", Kind.INT, "500", Range(1), _READ),
)


def _describe(key: str) -> str:
    promise = protection_setting_of(key)
    if promise is not None:
        return (
            f"Asks that {promise.asks_for}, which this broker does not support: only the default is accepted."
        )
    family = next(words for words, prefixes in _FAMILIES if key.startswith(prefixes))
    return f"Belongs to {family}, which this broker does not have: accepted, not used."


def _setting(
    key: str, kind: Kind, default: str | None, allowed: Allowed | None, scope: Scope, internal: bool = False
) -> Setting:
    setting = Setting(
        kind, None, _describe(key), allowed=allowed, scope=scope, key=key, used=False, internal=internal
    )
    setting.default = None if default is None else setting.parse(default)
    setting.default_text = setting.text(setting.default)
    return setting


UNUSED: Final[dict[str, Setting]] = {row[0]: _setting(*row) for row in _ROWS}
