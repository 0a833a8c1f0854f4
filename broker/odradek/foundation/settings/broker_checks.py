"""Settings that contradict each other although each value by itself is allowed."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_values import SettingValues


def contradictions(settings: SettingValues) -> Iterator[str]:
    """One sentence for each contradiction."""
    yield from _listeners(settings)
    yield from _connections(settings)
    yield from _retention(settings)
    yield from _groups(settings)
    yield from _replication(settings)
    if not settings.log_directories:
        yield f"Invalid value {settings.log_dirs} for configuration log.dirs: give at least one path"
    if len(set(settings.log_directories)) < len(settings.log_directories):
        yield f"log.dirs={settings.log_dirs} names a directory twice"
    if settings.broker_id >= 0 and settings.node_id not in (None, settings.broker_id):
        yield f"node.id={settings.node_id} and broker.id={settings.broker_id} differ; give only node.id"


def _listeners(settings: SettingValues) -> Iterator[str]:
    try:
        endpoints = settings.listener_endpoints
        advertised = settings.advertised_endpoints
        admin = settings.admin_endpoint
    except SettingError as error:
        yield str(error)
        return
    names = [endpoint.listener_name for endpoint in endpoints]
    if not endpoints:
        yield "listeners is empty; give at least one address, as PLAINTEXT://127.0.0.1:9092"
    yield from _find_repeated_listeners(settings, endpoints)
    for endpoint in advertised:
        if endpoint.listener_name not in names:
            yield (
                f"advertised.listeners={settings.advertised_listeners}: there is no listener "
                f"{endpoint.listener_name} in listeners={settings.listeners}"
            )
        if settings.advertised_listeners and endpoint.host in ("0.0.0.0", "::"):
            yield (
                f"advertised.listeners={settings.advertised_listeners}: clients cannot connect to {endpoint.host}; "
                "give a name or an address that reaches this host"
            )
    protocol = settings.security_inter_broker_protocol
    controller = settings.controller_endpoint
    is_secured = any(
        endpoint is not None and endpoint.security_protocol != "PLAINTEXT"
        for endpoint in (*endpoints, controller, admin)
    )
    if is_secured and settings.inter_broker_listener_name is None and protocol not in ("PLAINTEXT", *names):
        yield (
            f"security.inter.broker.protocol={protocol} names no listener of listeners={settings.listeners}; "
            "name one by inter.broker.listener.name instead"
        )
    wanted = settings.inter_broker_listener_name
    if wanted is not None and wanted.upper() not in names:
        yield f"inter.broker.listener.name={wanted} is not one of listeners={settings.listeners}"


def _find_repeated_listeners(settings: SettingValues, endpoints: tuple[Endpoint, ...]) -> Iterator[str]:
    names = [endpoint.listener_name for endpoint in endpoints]
    for name in {name for name in names if names.count(name) > 1}:
        # An IPv4 and an IPv6 address may share one name and port, as in Kafka; anything else may not.
        versions = [":" in endpoint.host for endpoint in endpoints if endpoint.listener_name == name]
        if sorted(versions) != [False, True]:
            yield f"listeners={settings.listeners} names the listener {name} twice; give each its own name"
    ports = [(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port]
    if len(set(ports)) < len(ports):
        yield f"listeners={settings.listeners} names one address twice"


def _connections(settings: SettingValues) -> Iterator[str]:
    try:
        overrides = settings.connections_per_ip_overrides
    except SettingError as error:
        yield str(error)
        return
    if settings.max_connections_per_ip == 0 and not overrides:
        yield "max.connections.per.ip=0 admits no connection; give max.connections.per.ip.overrides too"
    if 0 < settings.queued_max_request_bytes < settings.socket_request_max_bytes:
        yield (
            f"queued.max.request.bytes={settings.queued_max_request_bytes} must not be below "
            f"socket.request.max.bytes={settings.socket_request_max_bytes}, or the largest requests do not fit"
        )


def _retention(settings: SettingValues) -> Iterator[str]:
    for key in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        value = getattr(settings, key.replace(".", "_"))
        if value is not None and (value == 0 or value < -1):
            yield f"Invalid value {value} for configuration {key}: it must be at least 1, or -1 for ever"
    if settings.effective_roll_ms < 1:
        yield f"Invalid value {settings.log_roll_ms} for configuration log.roll.ms: it must be at least 1"
    if settings.effective_roll_jitter_ms < 0:
        yield (
            f"Invalid value {settings.log_roll_jitter_ms} for configuration log.roll.jitter.ms: "
            "it must be at least 0"
        )
    if settings.log_cleaner_min_compaction_lag_ms > settings.log_cleaner_max_compaction_lag_ms:
        yield (
            f"log.cleaner.min.compaction.lag.ms={settings.log_cleaner_min_compaction_lag_ms} must not be above "
            f"log.cleaner.max.compaction.lag.ms={settings.log_cleaner_max_compaction_lag_ms}"
        )


def _groups(settings: SettingValues) -> Iterator[str]:
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        yield (
            f"group.min.session.timeout.ms={settings.group_min_session_timeout_ms} must not be above "
            f"group.max.session.timeout.ms={settings.group_max_session_timeout_ms}"
        )
    consumer_timeout_ms = settings.group_consumer_session_timeout_ms
    consumer_interval_ms = settings.group_consumer_heartbeat_interval_ms
    streams_timeout_ms = settings.group_streams_session_timeout_ms
    streams_interval_ms = settings.group_streams_heartbeat_interval_ms
    share_timeout_ms = settings.group_share_session_timeout_ms
    share_interval_ms = settings.group_share_heartbeat_interval_ms
    for kind, name, value in (
        ("share", "session.timeout.ms", share_timeout_ms),
        ("share", "heartbeat.interval.ms", share_interval_ms),
        ("share", "assignment.interval.ms", settings.group_share_assignment_interval_ms),
        ("share", "delivery.count.limit", settings.group_share_delivery_count_limit),
        ("share", "partition.max.record.locks", settings.group_share_partition_max_record_locks),
        ("share", "record.lock.duration.ms", settings.group_share_record_lock_duration_ms),
        ("consumer", "session.timeout.ms", consumer_timeout_ms),
        ("consumer", "heartbeat.interval.ms", consumer_interval_ms),
        ("consumer", "assignment.interval.ms", settings.group_consumer_assignment_interval_ms),
        ("streams", "session.timeout.ms", streams_timeout_ms),
        ("streams", "heartbeat.interval.ms", streams_interval_ms),
        ("streams", "assignment.interval.ms", settings.group_streams_assignment_interval_ms),
    ):
        attribute = name.replace(".", "_")
        lowest = getattr(settings, f"group_{kind}_min_{attribute}")
        highest = getattr(settings, f"group_{kind}_max_{attribute}")
        if not lowest <= value <= highest:
            yield (
                f"group.{kind}.{name}={value} must be between group.{kind}.min.{name}={lowest} "
                f"and group.{kind}.max.{name}={highest}"
            )
    for kind, interval_ms, timeout_ms in (
        ("consumer", consumer_interval_ms, consumer_timeout_ms),
        ("share", share_interval_ms, share_timeout_ms),
        ("streams", streams_interval_ms, streams_timeout_ms),
    ):
        if interval_ms >= timeout_ms:
            yield (
                f"group.{kind}.heartbeat.interval.ms={interval_ms} must be below "
                f"group.{kind}.session.timeout.ms={timeout_ms}"
            )
    yield from _streams_groups(settings)
    known = {"uniform", "range"}
    for assignor in settings.group_consumer_assignors:
        # Kafka's full class names are accepted too. A class that is not one of Kafka's own cannot run here.
        if assignor.rpartition(".")[2].removesuffix("Assignor").lower() not in known:
            yield (
                f"group.consumer.assignors names {assignor}; it must be a list of uniform and range, "
                "since classes of Java cannot be loaded"
            )


def _streams_groups(settings: SettingValues) -> Iterator[str]:
    if settings.group_streams_num_standby_replicas > settings.group_streams_max_standby_replicas:
        yield (
            f"group.streams.num.standby.replicas={settings.group_streams_num_standby_replicas} must not be above "
            f"group.streams.max.standby.replicas={settings.group_streams_max_standby_replicas}"
        )
    if settings.group_streams_task_offset_interval_ms < settings.group_streams_min_task_offset_interval_ms:
        yield (
            f"group.streams.task.offset.interval.ms={settings.group_streams_task_offset_interval_ms} must be at least "
            f"group.streams.min.task.offset.interval.ms={settings.group_streams_min_task_offset_interval_ms}"
        )


def _replication(settings: SettingValues) -> Iterator[str]:
    if settings.replica_fetch_wait_max_ms > settings.replica_lag_time_max_ms:
        yield (
            f"replica.fetch.wait.max.ms={settings.replica_fetch_wait_max_ms} must not be above "
            f"replica.lag.time.max.ms={settings.replica_lag_time_max_ms}, or idle followers leave the in-sync set"
        )
    if settings.default_replication_factor < 1:
        yield (
            f"Invalid value {settings.default_replication_factor} for configuration default.replication.factor: "
            "it must be at least 1"
        )
    if not 0 <= settings.offsets_topic_compression_codec <= 4:
        yield (
            f"Invalid value {settings.offsets_topic_compression_codec} for configuration "
            "offsets.topic.compression.codec: it must be between 0 and 4"
        )
