"""A topic's settings as its log uses them, resolved: plain values, no names of keys, no inheritance.

`metadata.image.configs` owns the keys, defaults and validation and builds one of these per topic.
The defaults here are Apache Kafka 4.1's.
"""

from __future__ import annotations

from odradek.foundation.named_tuple import NamedTuple

LONG_MAX = 2**63 - 1
RECORD_BYTES_MAX = 2_147_483_639


class LogConfig(NamedTuple):
    """Settings of one log. A change is a new object handed to `Log.reconfigure`."""

    segment_bytes: int = 1024 * 1024 * 1024
    """A segment is closed before an append would make it longer than this; also bounds one append."""
    segment_ms: int = 7 * 24 * 3600 * 1000
    """A segment whose first and newest timestamps lie further apart than this is closed."""
    segment_jitter_ms: int = 0
    """At most so much is taken off `segment_ms`, at random per segment, so that partitions do not roll together."""
    segment_index_bytes: int = 10 * 1024 * 1024
    """The size at which an index counts as full, which closes the segment."""
    index_interval_bytes: int = 4096
    """Bytes of log between two index entries."""
    flush_messages: int = LONG_MAX
    """With so many records unflushed an append is to be flushed before it is acknowledged (`Log.must_flush`)."""
    flush_ms: int = LONG_MAX
    """Records unflushed for so long are due for a flush (`Log.is_flush_due`)."""
    retention_ms: int = 7 * 24 * 3600 * 1000
    """SegmentSet whose newest timestamp is older go away; -1 keeps them for ever."""
    retention_bytes: int = -1
    """Oldest segments go away while the rest is at least this large; -1 sets no bound."""
    max_message_bytes: int = 1048588
    """The largest batch that is taken."""
    max_decompressed_message_bytes: int = RECORD_BYTES_MAX
    """The largest record in a compressed batch that is taken, decompressed; by default any."""
    message_timestamp_type: str = "CreateTime"
    """CreateTime keeps the producer's time; LogAppendTime stamps the broker's."""
    message_timestamp_before_max_ms: int = LONG_MAX
    """The most that a record's time may lie behind the broker's clock."""
    message_timestamp_after_max_ms: int = 3600 * 1000
    """The most that a record's time may lie ahead of the broker's clock."""
    cleanup_delete: bool = True
    """Retention by time and size applies."""
    cleanup_compact: bool = False
    """The log keeps the newest record of each key: records need keys, gaps between offsets are ordinary."""
    min_cleanable_dirty_ratio: float = 0.5
    """A log is compacted once more than this part of it has not been."""
    min_compaction_lag_ms: int = 0
    """Segments with a record younger than this are not compacted."""
    max_compaction_lag_ms: int = LONG_MAX
    """A log with a record that waits for longer is compacted however little of it is dirty."""
    delete_retention_ms: int = 24 * 3600 * 1000
    """The time that tombstones and transaction markers stay after their records have gone."""
    compression_type: str = "producer"
    """`producer` stores what comes; `uncompressed` or a codec's name makes the broker recompress what differs."""
    compression_level: int | None = None
    """The level for `compression_type`; None is the codec's default."""
    file_delete_delay_ms: int = 60 * 1000
    """The time that a file renamed to .deleted stays, for readers that are still in it."""

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker's clock stamps the records."""
        return self.message_timestamp_type == "LogAppendTime"
