"""Jobs that write the offsets of all logs into the checkpoint files of their directories.

Each is made on the logs' own thread, with a copy of the offsets of that time. It runs on any thread, and its result is
passed back to `LogManager.end_checkpoint`.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.foundation.ids import TopicPartition
from odradek.storage.checkpoints import CLEANER_FILE, LOG_START_FILE, RECOVERY_POINT_FILE, REPLICATION_FILE
from odradek.storage.directories.background_jobs import CheckpointJob
from odradek.storage.directories.directory_set import DirectorySet
from odradek.storage.log import Log


class LogCheckpoints:
    """`logs` are those of the log manager, which it changes."""

    def __init__(self, directories: DirectorySet, logs: Mapping[TopicPartition, Log]) -> None:
        self._directories = directories
        self._logs = logs
        # What the newest job writes as the offsets up to which logs are compacted, also while it is under way.
        self._cleaned: dict[TopicPartition, int] = {}

    def begin(self) -> CheckpointJob:
        """Recovery points and start offsets."""
        offsets = self._empty(RECOVERY_POINT_FILE, LOG_START_FILE)
        for topic_partition, log in self._logs.items():
            files = offsets[log.parent_directory]
            files[RECOVERY_POINT_FILE][topic_partition] = log.recovery_point
            if log.log_start_offset > log.segments.first.base_offset:
                files[LOG_START_FILE][topic_partition] = log.log_start_offset
        return self._directories.checkpoint_job(offsets)

    def begin_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> CheckpointJob:
        """The high watermarks of the partitions that have other replicas."""
        offsets = self._empty(REPLICATION_FILE)
        for topic_partition, high_watermark in high_watermarks.items():
            log = self._logs.get(topic_partition)
            if log is not None:
                offsets[log.parent_directory][REPLICATION_FILE][topic_partition] = high_watermark
        return self._directories.checkpoint_job(offsets)

    def begin_cleaner(self) -> CheckpointJob:
        """The offsets up to which logs are compacted."""
        offsets = self._empty(CLEANER_FILE)
        self._cleaned = {
            topic_partition: log.offsets.cleaned_offset
            for topic_partition, log in self._logs.items()
            if log.offsets.cleaned_offset >= 0
        }
        for topic_partition, offset in self._cleaned.items():
            offsets[self._logs[topic_partition].parent_directory][CLEANER_FILE][topic_partition] = offset
        return self._directories.checkpoint_job(offsets)

    def may_exceed_cleaned(self, log: Log) -> bool:
        """Whether the cleaner's file says, or is about to say, that more of this log is compacted than is.

        Records that are appended then would count as compacted after a crash. Their round never comes, and other
        replicas forget deletions that this one still needs.
        """
        directory = self._directories.by_path[log.parent_directory]
        written = directory.checkpointed(CLEANER_FILE, log.topic_partition)
        return max(written, self._cleaned.get(log.topic_partition, -1)) > log.offsets.cleaned_offset

    def _empty(self, *names: str) -> dict[str, dict[str, dict[TopicPartition, int]]]:
        return {directory.path: {name: {} for name in names} for directory in self._directories.online}
