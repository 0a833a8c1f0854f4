"""High watermarks on disk: `replication-offset-checkpoint`, Kafka's file, one in each log directory.

A broker that starts shows and vouches for what it knew to be committed, until it hears more from a leader or from
followers. The file may be old: a high watermark only grows, so an old one is true as well. Partitions that have no
other replica are left out, since all that they hold is committed.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.foundation.ids import TopicPartition
from odradek.log.directory import LogDirectories
from odradek.log.pieces import CheckpointWrite
from odradek.replication.replica import Replica


def read_high_watermarks(directories: LogDirectories) -> dict[TopicPartition, int]:
    """As last written down; a damaged file counts as empty, which is safe and slow."""
    return directories.read_high_watermarks()


def begin_write(directories: LogDirectories, replicas: Iterable[Replica]) -> CheckpointWrite:
    """What is to be written now; whoever runs it, on any thread, hands it to `directories.end_checkpoint`."""
    return directories.begin_high_watermark_checkpoint(
        {
            replica.topic_partition: replica.high_watermark
            for replica in replicas
            if replica.gone is None and len(replica.replicas) > 1
        }
    )
