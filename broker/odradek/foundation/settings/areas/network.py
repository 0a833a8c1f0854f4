"""The broker's identity, its listeners, and the bounds on connections."""

from __future__ import annotations

from odradek.foundation.machine_limits import PROCESSES_MAX
from odradek.foundation.settings.declaration import (
    INT32_MAX,
    NotEmpty,
    OneOf,
    Scope,
    integer,
    long,
    text,
)

CLUSTER_WIDE = Scope.CLUSTER_WIDE


class IdentitySettings:
    """The broker's id and rack."""

    node_id: int | None = integer(
        None,
        "The number of this broker, unlike every other in the cluster. Without it, broker.id; then 1.",
        0,
    )
    broker_id: int = integer(-1, "The older name of node.id; -1 leaves the number to node.id.")
    broker_rack: str | None = text(
        None, "The rack or zone of this broker; replicas of one partition are spread over racks."
    )
    broker_machine: str | None = text(
        None,
        "The machine of this broker. Brokers with the same name here share one, and no two replicas of a partition are "
        "placed on it. Without a name a broker counts as a machine of its own. With broker.processes above 1 the "
        "default is the number of the first broker.",
        NotEmpty(),
    )
    broker_processes: int = integer(
        1,
        "The brokers that `odradek broker` runs as processes of one machine. 1 is a single broker.",
        1,
        PROCESSES_MAX,
    )
    log_dir: str = text("/tmp/kafka-logs", "The directory for logs when log.dirs is not given.")
    log_dirs: str | None = text(
        None, "The directories for logs, parted by commas; new partitions go where the fewest are."
    )


class ListenerSettings:
    """The addresses that the broker binds, and those that it advertises to clients."""

    listeners: str = text(
        "PLAINTEXT://:9092",
        "Addresses to listen on, as NAME://host:port parted by commas; no host is every interface, port 0 a free one.",
    )
    advertised_listeners: str | None = text(
        None, "The addresses that clients connect to, by listener; without it those of listeners."
    )
    listener_security_protocol_map: str = text(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL parted by commas.",
    )
    inter_broker_listener_name: str | None = text(
        None,
        "The listener over which brokers talk to each other; without it the one of security.inter.broker.protocol.",
    )
    controller_listener_names: str | None = text(
        None,
        "The controllers' listener, whose protocol and settings a broker of a cluster connects to controllers with: "
        "the first name counts. Without it connections to controllers are PLAINTEXT.",
    )
    admin_listener_name: str | None = text(
        None,
        "The listener whose protocol, users and settings protect the port of --admin: one of `listeners`, or another "
        "name of listener.security.protocol.map. Without it that port has neither TLS nor logins.",
    )
    security_inter_broker_protocol: str = text(
        "PLAINTEXT",
        "The security protocol between brokers when inter.broker.listener.name is not given.",
        OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )


class ConnectionSettings:
    """Bounds on connections and requests."""

    socket_send_buffer_bytes: int = integer(
        102_400, "SO_SNDBUF of client connections; -1 leaves the operating system's choice."
    )
    socket_receive_buffer_bytes: int = integer(
        102_400, "SO_RCVBUF of client connections; -1 leaves the operating system's choice."
    )
    socket_request_max_bytes: int = integer(
        104_857_600, "The largest request that is read; a larger one ends its connection.", 1
    )
    queued_max_request_bytes: int = long(
        -1,
        "The most memory of requests that are received or wait, over all connections; beyond it connections are read "
        "in turn. Without a bound, 128 MiB, or socket.request.max.bytes if that is more.",
    )
    socket_listen_backlog_size: int = integer(
        50, "Connections that may wait to be accepted (the operating system may allow fewer).", 1
    )
    max_connections: int = integer(
        INT32_MAX, "Connections that may be open at once over all listeners.", 0, scope=CLUSTER_WIDE
    )
    max_connection_creation_rate: int = integer(
        INT32_MAX,
        "Connections that are accepted in a second, for the broker or, with `listener.name.NAME.` before, a listener.",
        0,
        scope=CLUSTER_WIDE,
    )
    max_connections_per_ip: int = integer(
        INT32_MAX, "Connections that may be open at once from one address.", 0, scope=CLUSTER_WIDE
    )
    max_connections_per_ip_overrides: str = text(
        "", "Exceptions to max.connections.per.ip, as address:count parted by commas.", scope=CLUSTER_WIDE
    )
    slow_request_log_ms: int = long(
        10_000,
        "A request that takes longer is named in the log, without the time that it wants to wait; -1 for none. By "
        "default clients give up after 30 seconds.",
        -1,
        scope=CLUSTER_WIDE,
    )
    connections_max_idle_ms: int = long(600_000, "A connection without a request for this long is closed.")
    request_timeout_ms: int = integer(30_000, "How long the broker waits for answers to its own requests.")
    fetch_max_bytes: int = integer(
        57_671_680, "The most bytes that one fetch is answered with, one batch excepted.", 1024
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        1000, "Fetch sessions that are kept; a new one evicts the one used longest ago.", 0
    )
    max_request_partition_size_limit: int = integer(
        2000, "The most partitions in one DescribeTopicPartitions answer.", 1
    )
