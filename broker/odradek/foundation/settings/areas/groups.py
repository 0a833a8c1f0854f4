"""Consumer groups and their offsets; producers and transactions."""

from __future__ import annotations

from odradek.foundation.settings.declaration import (
    INT32_MAX,
    EachOf,
    Kind,
    OneOf,
    Scope,
    boolean,
    integer,
    text,
    words,
)

CLUSTER_WIDE = Scope.CLUSTER_WIDE


class GroupSettings:
    """Groups of the classic protocol, and settings of both protocols."""

    group_min_session_timeout_ms: int = integer(
        6000, "The shortest session timeout that a member of a classic group may ask for."
    )
    group_max_session_timeout_ms: int = integer(
        1_800_000, "The longest session timeout that a member of a classic group may ask for."
    )
    group_initial_rebalance_delay_ms: int = integer(
        3000, "How long the first rebalance of an empty classic group waits for more members."
    )
    group_max_size: int = integer(INT32_MAX, "Members of one classic group.", 1)
    group_coordinator_rebalance_protocols: tuple[str, ...] = words(
        ("classic", "consumer", "streams"),
        "The group protocols that are served. Of share groups share.version decides.",
        EachOf("consumer", "classic", "share", "streams"),
    )


class ConsumerGroupSettings:
    """Groups whose assignment the broker computes (KIP-848)."""

    group_consumer_assignors: tuple[str, ...] = words(
        ("uniform", "range"), "The server-side assignors; the first is the default."
    )
    group_consumer_max_size: int = integer(INT32_MAX, "Members of one consumer group.", 1)
    group_consumer_session_timeout_ms: int = integer(
        45_000, "A member without a heartbeat for this long is removed.", 1
    )
    group_consumer_min_session_timeout_ms: int = integer(
        45_000, "The shortest session timeout that a group may be given.", 1
    )
    group_consumer_max_session_timeout_ms: int = integer(
        60_000, "The longest session timeout that a group may be given.", 1
    )
    group_consumer_heartbeat_interval_ms: int = integer(
        5000, "The time between heartbeats that the broker sends to members.", 1
    )
    group_consumer_min_heartbeat_interval_ms: int = integer(
        5000, "The shortest heartbeat interval that a group may be given.", 1
    )
    group_consumer_max_heartbeat_interval_ms: int = integer(
        15_000, "The longest heartbeat interval that a group may be given.", 1
    )
    group_consumer_assignment_interval_ms: int = integer(
        0,
        "The shortest time between two assignments of a group; 0 assigns at once. Kafka 4.4 waits 1000 ms.",
        0,
        scope=CLUSTER_WIDE,
    )
    group_consumer_min_assignment_interval_ms: int = integer(
        0, "The shortest assignment interval that a group may be given.", 0
    )
    group_consumer_max_assignment_interval_ms: int = integer(
        15_000, "The longest assignment interval that a group may be given.", 0
    )
    group_consumer_migration_policy: str = text(
        "bidirectional",
        "Whether a group may change between the classic and the consumer protocol while it has members.",
        OneOf("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", any_case=True),
    )


class StreamsGroupSettings:
    """Groups whose tasks the broker assigns (KIP-1071)."""

    group_streams_max_size: int = integer(INT32_MAX, "Members of one Streams group.", 1)
    group_streams_session_timeout_ms: int = integer(
        45_000, "A member without a heartbeat for this long is removed.", 1
    )
    group_streams_min_session_timeout_ms: int = integer(
        45_000, "The shortest session timeout that a group may be given.", 1
    )
    group_streams_max_session_timeout_ms: int = integer(
        60_000, "The longest session timeout that a group may be given.", 1
    )
    group_streams_heartbeat_interval_ms: int = integer(
        5000, "The time between heartbeats that the broker sends to members.", 1
    )
    group_streams_min_heartbeat_interval_ms: int = integer(
        5000, "The shortest heartbeat interval that a group may be given.", 1
    )
    group_streams_max_heartbeat_interval_ms: int = integer(
        15_000, "The longest heartbeat interval that a group may be given.", 1
    )
    group_streams_num_standby_replicas: int = integer(
        0, "Standby tasks for each task with state, as far as there are processes for them.", 0
    )
    group_streams_max_standby_replicas: int = integer(
        2, "The most standby tasks that a group may be given for each task.", 0
    )
    group_streams_initial_rebalance_delay_ms: int = integer(
        3000, "How long the first assignment of a group without members waits for more members.", 0
    )
    group_streams_assignors: tuple[str, ...] = words(
        ("sticky",), "The assignors of tasks; the first is the default.", EachOf("sticky")
    )
    group_streams_assignment_interval_ms: int = integer(
        1000, "The shortest time between two assignments of a group.", 0, scope=CLUSTER_WIDE
    )
    group_streams_min_assignment_interval_ms: int = integer(
        0, "The shortest assignment interval that a group may be given.", 0
    )
    group_streams_max_assignment_interval_ms: int = integer(
        15_000, "The longest assignment interval that a group may be given.", 0
    )
    group_streams_task_offset_interval_ms: int = integer(
        60_000, "The time between reports of changelog offsets that members are asked for.", 1, internal=True
    )
    group_streams_min_task_offset_interval_ms: int = integer(
        15_000, "The shortest such time that a group may be given.", 1, internal=True
    )
    group_streams_acceptable_recovery_lag: int = integer(
        10_000,
        "The lag of a copy that counts as caught up. Members learn it; like Kafka, the broker does not use it.",
        0,
        kind=Kind.LONG,
        internal=True,
    )
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = words(
        (),
        "The tags of clients that standby tasks should be spread by. Like Kafka's, the sticky assignor does not spread "
        "by them.",
    )


class ShareGroupSettings:
    """Groups whose members share the records of partitions, as a queue (KIP-932)."""

    group_share_max_size: int = integer(200, "Members of one share group.", 1, 1000)
    group_share_max_share_sessions: int = integer(
        2000, "Share sessions of one broker: a member has one with each leader.", 1
    )
    group_share_session_timeout_ms: int = integer(
        45_000, "A member without a heartbeat for this long is removed.", 1
    )
    group_share_min_session_timeout_ms: int = integer(
        45_000, "The shortest session timeout that a group may be given.", 1
    )
    group_share_max_session_timeout_ms: int = integer(
        60_000, "The longest session timeout that a group may be given.", 1
    )
    group_share_heartbeat_interval_ms: int = integer(
        5000, "The time between heartbeats that the broker sends to members.", 1
    )
    group_share_min_heartbeat_interval_ms: int = integer(
        5000, "The shortest heartbeat interval that a group may be given.", 1
    )
    group_share_max_heartbeat_interval_ms: int = integer(
        15_000, "The longest heartbeat interval that a group may be given.", 1
    )
    group_share_assignment_interval_ms: int = integer(
        1000, "The shortest time between two assignments of a group.", 0, scope=CLUSTER_WIDE
    )
    group_share_min_assignment_interval_ms: int = integer(
        0, "The shortest assignment interval that a group may be given.", 0
    )
    group_share_max_assignment_interval_ms: int = integer(
        15_000, "The longest assignment interval that a group may be given.", 0
    )
    group_share_delivery_count_limit: int = integer(
        5, "How often a record is delivered before it counts as one that cannot be processed.", 2, 10
    )
    group_share_min_delivery_count_limit: int = integer(
        2, "The lowest such number that a group may be given.", 2, 5
    )
    group_share_max_delivery_count_limit: int = integer(
        10, "The highest such number that a group may be given.", 5, 25
    )
    group_share_record_lock_duration_ms: int = integer(
        30_000, "How long a member has a record for itself, before another one is given it.", 1000, 3_600_000
    )
    group_share_min_record_lock_duration_ms: int = integer(
        15_000, "The shortest such time that a group may be given.", 1000, 30_000
    )
    group_share_max_record_lock_duration_ms: int = integer(
        60_000, "The longest such time that a group may be given.", 30_000, 3_600_000
    )
    group_share_partition_max_record_locks: int = integer(
        2000, "Records of one partition that a group may have in flight.", 100, 10_000
    )
    group_share_min_partition_max_record_locks: int = integer(
        100, "The lowest such number that a group may be given.", 100, 2000
    )
    group_share_max_partition_max_record_locks: int = integer(
        4000, "The highest such number that a group may be given.", 2000, 10_000
    )
    errors_deadletterqueue_topic_name_prefix: str = text(
        "dlq.",
        "What the names of dead-letter topics of share groups begin with; empty for no such rule.",
        scope=CLUSTER_WIDE,
    )
    errors_deadletterqueue_auto_create_topics_enable: bool = boolean(
        False,
        "Whether the dead-letter topic that a share group names is created when it is missing.",
        scope=CLUSTER_WIDE,
    )


class ShareStateSettings:
    """The topic that holds what share groups have acknowledged, and its coordinator."""

    share_coordinator_state_topic_num_partitions: int = integer(
        50, "Partitions of __share_group_state; must not change after the topic is created.", 1
    )
    share_coordinator_state_topic_replication_factor: int = integer(
        3,
        "Replicas of __share_group_state; in a cluster with fewer brokers, one on each broker.",
        1,
        kind=Kind.SHORT,
    )
    share_coordinator_state_topic_min_isr: int = integer(
        2, "min.insync.replicas of __share_group_state.", 1, kind=Kind.SHORT
    )
    share_coordinator_state_topic_segment_bytes: int = integer(
        104_857_600, "The segment size of __share_group_state.", 1
    )
    share_coordinator_state_topic_compression_codec: int = integer(
        0, "The compression of states: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = integer(
        500, "Changes of one share-partition's state that are written between two snapshots of it.", 0, 500
    )
    share_coordinator_load_buffer_size: int = integer(
        5 << 20, "Bytes of __share_group_state read at once while a coordinator loads.", 1
    )
    share_coordinator_write_timeout_ms: int = integer(
        5000, "A state that the replicas do not have after this time fails.", 1
    )
    share_coordinator_state_topic_prune_interval_ms: int = integer(
        300_000, "How often records that newer ones replace are deleted.", 1, internal=True
    )


class OffsetSettings:
    """Committed offsets and the topic that holds them."""

    offset_metadata_max_bytes: int = integer(4096, "The longest note that a commit may carry.")
    offsets_retention_minutes: int = integer(
        10_080, "Offsets of a group without members are deleted after this long.", 1
    )
    offsets_retention_check_interval_ms: int = integer(
        600_000, "How often expired offsets are looked for.", 1, kind=Kind.LONG
    )
    offsets_topic_num_partitions: int = integer(
        50, "Partitions of __consumer_offsets; must not change after the topic is created.", 1
    )
    offsets_topic_replication_factor: int = integer(
        3,
        "Replicas of __consumer_offsets; in a cluster with fewer brokers, one on each broker.",
        1,
        kind=Kind.SHORT,
    )
    offsets_topic_segment_bytes: int = integer(
        104_857_600, "The segment size of __consumer_offsets; small ones load and compact faster.", 1
    )
    offsets_topic_compression_codec: int = integer(
        0, "The compression of commits: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    )
    offsets_commit_timeout_ms: int = integer(
        5000, "A commit that the replicas do not have after this time fails.", 1
    )
    offsets_load_buffer_size: int = integer(
        5 << 20, "Bytes of __consumer_offsets read at once while a coordinator loads.", 1
    )


class ProducerSettings:
    """Idempotent producers, and the transaction coordinator."""

    producer_id_expiration_ms: int = integer(
        86_400_000,
        "The state of a producer that has not written for this long is deleted.",
        1,
        scope=CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms: int = integer(
        600_000, "How often expired producers are looked for.", 1, internal=True
    )
    transactional_id_expiration_ms: int = integer(
        604_800_000, "A transactional id that has not been used for this long is deleted.", 1
    )
    transaction_max_timeout_ms: int = integer(
        900_000, "The longest transaction timeout that a producer may ask for.", 1
    )
    transaction_state_log_num_partitions: int = integer(
        50, "Partitions of __transaction_state; must not change after the topic is created.", 1
    )
    transaction_state_log_replication_factor: int = integer(
        3,
        "Replicas of __transaction_state; in a cluster with fewer brokers, one on each broker.",
        1,
        kind=Kind.SHORT,
    )
    transaction_state_log_min_isr: int = integer(2, "min.insync.replicas of __transaction_state.", 1)
    transaction_state_log_segment_bytes: int = integer(
        104_857_600, "The segment size of __transaction_state.", 1
    )
    transaction_state_log_load_buffer_size: int = integer(
        5 << 20, "Bytes of __transaction_state read at once while a coordinator loads.", 1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = integer(
        1000,
        "How often transactions past their timeout are aborted. Apache Kafka's default is 10000: readers of the "
        "partitions wait for the abort.",
        1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = integer(
        3_600_000, "How often expired transactional ids are removed.", 1
    )
    add_partitions_to_txn_retry_backoff_ms: int = integer(
        20, "How long a write waits until it asks again for a transaction whose last one is being ended.", 1
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = integer(
        100, "How long a write continues to ask for such a transaction, before its producer has to.", 0
    )
    transaction_partition_verification_enable: bool = boolean(
        True, "Whether a transactional write is checked to belong to an open transaction.", scope=CLUSTER_WIDE
    )
    transaction_two_phase_commit_enable: bool = boolean(
        False, "Accepted, with no effect: there are no transactions that an outside coordinator prepares."
    )
