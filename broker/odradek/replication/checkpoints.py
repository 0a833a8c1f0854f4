"""High watermarks on disk: `replication-offset-checkpoint`, Kafka's file, one in each log directory.

A broker that starts serves readers up to the high watermarks in the file, until a leader or followers report newer
ones. The file may be old: a high watermark only grows, so an old one is true as well. Partitions with one replica are
left out, since all their records are committed.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.foundation.ids import TopicPartition
from odradek.log.background_jobs import CheckpointJob
from odradek.log.log_manager import LogManager
from odradek.replication.partition import Partition


def read_high_watermarks(log_manager: LogManager) -> dict[TopicPartition, int]:
    """As last written; a damaged file counts as empty, which is safe and slow."""
    return log_manager.read_high_watermarks()


def begin_write(log_manager: LogManager, partitions: Iterable[Partition]) -> CheckpointJob:
    """The job that writes them, for any thread; afterwards it goes to `log_manager.end_checkpoint`."""
    return log_manager.begin_high_watermark_checkpoint(
        {
            partition.topic_partition: partition.high_watermark
            for partition in partitions
            if partition.gone is None and partition.has_followers
        }
    )
