"""The writing, rolling, flushing, keeping and cleaning of logs, and the defaults for topics."""

from __future__ import annotations

from odradek.foundation.settings.declaration import (
    INT64_MAX,
    EachOf,
    OneOf,
    Scope,
    boolean,
    double,
    integer,
    long,
    text,
    words,
)

CLUSTER_WIDE = Scope.CLUSTER_WIDE


class SegmentSettings:
    """Segments, indexes and flushing."""

    log_segment_bytes: int = integer(
        1 << 30, "A segment file is closed and the next begun at this size.", 1 << 20, scope=CLUSTER_WIDE
    )
    log_roll_ms: int | None = long(
        None,
        "A segment is closed at this age even when it is small; without it log.roll.hours.",
        scope=CLUSTER_WIDE,
        synonyms=("log.roll.hours",),
    )
    log_roll_hours: int = integer(168, "The age at which a segment is closed, in hours; see log.roll.ms.", 1)
    log_roll_jitter_ms: int | None = long(
        None,
        "A random time up to this is subtracted from a segment's age, so that segments do not all roll at once.",
        scope=CLUSTER_WIDE,
        synonyms=("log.roll.jitter.hours",),
    )
    log_roll_jitter_hours: int = integer(0, "log.roll.jitter.ms in hours.", 0)
    log_index_size_max_bytes: int = integer(
        10 << 20, "The largest offset or time index; a full index closes its segment.", 4, scope=CLUSTER_WIDE
    )
    log_index_interval_bytes: int = integer(
        4096, "Bytes of log between two index entries.", 0, scope=CLUSTER_WIDE
    )
    log_preallocate: bool = boolean(
        False, "Accepted, with no effect: file systems allocate as a segment grows.", scope=CLUSTER_WIDE
    )
    log_flush_interval_messages: int = long(
        INT64_MAX, "Records after which a partition is flushed to disk.", 1, scope=CLUSTER_WIDE
    )
    log_flush_interval_ms: int | None = long(
        None,
        "Time after which a partition's records are flushed to disk; without it log.flush.scheduler.interval.ms.",
        scope=CLUSTER_WIDE,
        synonyms=("log.flush.scheduler.interval.ms",),
    )
    log_flush_scheduler_interval_ms: int = long(
        INT64_MAX, "How often the broker looks for partitions whose flush is due."
    )
    log_flush_offset_checkpoint_interval_ms: int = integer(
        60_000, "How often recovery points are written to disk.", 0
    )
    log_segment_delete_delay_ms: int = long(
        60_000,
        "A deleted file stays on disk for this long, for readers that still use it.",
        0,
        scope=CLUSTER_WIDE,
    )
    num_recovery_threads_per_data_dir: int = integer(
        2,
        "Logs of one directory that are opened at once when the broker starts. Scanning small batches keeps one "
        "processor busy however many there are; large batches and a slow disk gain. Read when the broker starts.",
        1,
        scope=CLUSTER_WIDE,
    )
    log_initial_task_delay_ms: int = long(
        30_000, "Time from the start to the first retention, flush and checkpoint round.", 0, internal=True
    )


class RetentionSettings:
    """Retention."""

    log_retention_policy: str | None = text(
        None,
        "The function that chooses which old segments are deleted, as MODULE:FUNCTION on the broker's PYTHONPATH; "
        "without it retention by time and by size.",
    )

    log_cleanup_policy: tuple[str, ...] = words(
        ("delete",),
        "What happens to old segments: delete them, compact them by key, or both.",
        EachOf("compact", "delete"),
        scope=CLUSTER_WIDE,
    )
    log_retention_ms: int | None = long(
        None,
        "Records older than this are deleted; -1 keeps them for ever; without it log.retention.minutes.",
        scope=CLUSTER_WIDE,
        synonyms=("log.retention.minutes", "log.retention.hours"),
    )
    log_retention_minutes: int | None = integer(
        None,
        "log.retention.ms in minutes; without it log.retention.hours.",
        synonyms=("log.retention.hours",),
    )
    log_retention_hours: int = integer(168, "log.retention.ms in hours.")
    log_retention_bytes: int = long(
        -1, "A partition larger than this loses its oldest segments; -1 sets no limit.", scope=CLUSTER_WIDE
    )
    log_retention_check_interval_ms: int = long(300_000, "How often old segments are looked for.", 1)
    log_local_retention_ms: int = long(
        -2, "How long tiered records stay on local disk; -2 means log.retention.ms.", -2, scope=CLUSTER_WIDE
    )
    log_local_retention_bytes: int = long(
        -2,
        "How much of a tiered partition stays on local disk; -2 means log.retention.bytes.",
        -2,
        scope=CLUSTER_WIDE,
    )


class CleanerSettings:
    """Compaction by key."""

    log_cleaner_enable: bool = boolean(True, "Whether compacted topics are compacted.")
    log_cleaner_threads: int = integer(1, "Threads that compact.", 0, scope=CLUSTER_WIDE)
    log_cleaner_io_max_bytes_per_second: float = double(
        1.7976931348623157e308,
        "The most bytes that compaction reads and writes per second.",
        scope=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size: int = long(
        128 << 20, "Memory for the map from key to last offset, over all threads.", scope=CLUSTER_WIDE
    )
    log_cleaner_io_buffer_size: int = integer(
        512 << 10, "Memory for reading and writing while compacting, over all threads.", 0, scope=CLUSTER_WIDE
    )
    log_cleaner_io_buffer_load_factor: float = double(
        0.9, "How full the map from key to offset may become.", scope=CLUSTER_WIDE
    )
    log_cleaner_backoff_ms: int = long(
        15_000, "How long compaction sleeps when nothing is dirty.", 0, scope=CLUSTER_WIDE
    )
    log_cleaner_min_cleanable_ratio: float = double(
        0.5, "A log is compacted when this share of it is not compacted yet.", 0, 1, scope=CLUSTER_WIDE
    )
    log_cleaner_delete_retention_ms: int = long(
        86_400_000, "How long a deletion marker of a compacted topic is kept.", 0, scope=CLUSTER_WIDE
    )
    log_cleaner_min_compaction_lag_ms: int = long(
        0, "A record stays uncompacted for at least this long.", 0, scope=CLUSTER_WIDE
    )
    log_cleaner_max_compaction_lag_ms: int = long(
        INT64_MAX,
        "A record is compacted after this long even in a log that is hardly dirty.",
        1,
        scope=CLUSTER_WIDE,
    )


class MessageSettings:
    """Batches and timestamps."""

    message_max_bytes: int = integer(
        1_048_588, "The largest batch that a producer may write, as it is on the wire.", 0, scope=CLUSTER_WIDE
    )
    max_decompressed_message_bytes: int = integer(
        2_147_483_639,
        "The largest record in a compressed batch that a producer may write, decompressed.",
        1,
        2_147_483_639,
        scope=CLUSTER_WIDE,
        internal=True,
    )
    compression_type: str = text(
        "producer",
        "The compression of stored batches; producer keeps what the producer chose.",
        OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        scope=CLUSTER_WIDE,
    )
    compression_gzip_level: int = integer(
        -1, "The level when compression.type is gzip.", 1, 9, exception=-1, scope=CLUSTER_WIDE
    )
    compression_lz4_level: int = integer(
        9, "The level when compression.type is lz4.", 1, 17, scope=CLUSTER_WIDE
    )
    compression_zstd_level: int = integer(
        3, "The level when compression.type is zstd.", -131_072, 22, scope=CLUSTER_WIDE
    )
    log_message_timestamp_type: str = text(
        "CreateTime",
        "Whether a record's time is the producer's or that of its append.",
        OneOf("CreateTime", "LogAppendTime"),
        scope=CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms: int = long(
        INT64_MAX, "How far before the broker's clock a record's time may lie.", 0, scope=CLUSTER_WIDE
    )
    log_message_timestamp_after_max_ms: int = long(
        3_600_000, "How far after the broker's clock a record's time may lie.", 0, scope=CLUSTER_WIDE
    )


class TopicSettings:
    """Creation and replication of topics."""

    auto_create_topics_enable: bool = boolean(
        True, "Whether a Metadata request for a topic creates it; producers and consumers send one."
    )
    delete_topic_enable: bool = boolean(True, "Whether topics can be deleted.")
    num_partitions: int = integer(1, "Partitions of a topic whose creator gives no number.", 1)
    default_replication_factor: int = integer(1, "Replicas of a topic whose creator gives no number.")
    min_insync_replicas: int = integer(
        1, "Replicas that must hold a record before acks=all is answered.", 1, scope=CLUSTER_WIDE
    )
    unclean_leader_election_enable: bool = boolean(
        False,
        "Whether a replica that is not in sync may lead when no other can, losing records.",
        scope=CLUSTER_WIDE,
    )
