"""Replication, the controller, and a broker's controlled stop."""

from __future__ import annotations

from odradek.foundation.settings.declaration import (
    INT64_MAX,
    CordonedDirectories,
    Scope,
    boolean,
    integer,
    long,
    text,
    words,
)

CLUSTER_WIDE = Scope.CLUSTER_WIDE


class ReplicaSettings:
    """Followers and their leaders, in a cluster of several brokers."""

    num_replica_fetchers: int = integer(
        1, "Connections with which a follower fetches from each leader.", scope=CLUSTER_WIDE
    )
    replica_fetch_max_bytes: int = integer(
        1 << 20, "The most bytes that a follower asks for per partition, one batch excepted.", 0
    )
    replica_fetch_response_max_bytes: int = integer(
        10 << 20, "The most bytes that a follower asks for per fetch, one batch excepted.", 0
    )
    replica_fetch_min_bytes: int = integer(1, "The fewest bytes that a follower's fetch waits for.")
    replica_fetch_wait_max_ms: int = integer(500, "The longest that a follower's fetch waits.")
    replica_fetch_backoff_ms: int = integer(1000, "How long a follower pauses after an error.", 0)
    replica_lag_time_max_ms: int = long(
        30_000, "A follower that has not caught up for this long leaves the in-sync replicas."
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        5000, "How often high watermarks are written to disk."
    )
    replica_socket_timeout_ms: int = integer(30_000, "How long a follower waits for a leader's answer.")
    replica_socket_receive_buffer_bytes: int = integer(
        65_536,
        "Accepted, with no effect: the operating system chooses the buffers of followers' connections.",
    )
    replica_selector_class: str | None = text(
        None, "How the replica nearest to a consumer is chosen (KIP-392)."
    )
    leader_replication_throttled_rate: int = long(
        INT64_MAX,
        "Bytes per second that leaders send for throttled replicas.",
        0,
        scope=Scope.PER_BROKER,
        internal=True,
    )
    follower_replication_throttled_rate: int = long(
        INT64_MAX,
        "Bytes per second that followers fetch for throttled replicas.",
        0,
        scope=Scope.PER_BROKER,
        internal=True,
    )
    cordoned_log_dirs: tuple[str, ...] = words(
        (),
        "Log directories in which this broker makes no new logs (KIP-1066). * keeps all new replicas away from it.",
        CordonedDirectories(),
        scope=Scope.PER_BROKER,
    )
    num_replica_alter_log_dirs_threads: int | None = integer(
        None, "Replicas that move between log directories at a time; the number of those when not given."
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = long(
        INT64_MAX,
        "Bytes per second that replicas copy which move between this broker's log directories, of all together.",
        0,
        scope=Scope.PER_BROKER,
        internal=True,
    )


class ControllerSettings:
    """Membership and leadership in a cluster. A broker is a member as long as its session with ZooKeeper lasts, too."""

    auto_leader_rebalance_enable: bool = boolean(
        True, "Whether leadership goes back to each partition's first replica from time to time."
    )
    leader_imbalance_check_interval_seconds: int = long(300, "How often the leaders' balance is checked.", 1)
    controlled_shutdown_enable: bool = boolean(
        True, "Whether a stopping broker first moves its leaderships to other brokers."
    )
    broker_session_timeout_ms: int = integer(
        9000,
        "For controllers: a broker that has not asked for changes for so long is no member, until it is heard again.",
    )
    broker_heartbeat_interval_ms: int = integer(
        2000, "How often a broker asks the controller for changes at least; 100 ms at the shortest."
    )
    controller_socket_timeout_ms: int = integer(
        30_000, "Accepted, with no effect: the controller sends brokers no requests."
    )
    log_dir_failure_timeout_ms: int = long(
        30_000, "Accepted, with no effect: no heartbeat reports a failed log directory.", 1
    )
