"""Jobs on log directories that may run beside each other, on any thread.

`log_manager.LogManager` makes each job and takes it back on its own thread, and a job touches nothing of it while it
runs. An `OpenJob` makes a log that nothing else has yet, a `CloseJob` syncs files, a `CheckpointJob` has its own copy
of the offsets. The caller decides how many run at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.foundation.errors import CorruptRecord, KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.disk_space import error_text
from odradek.storage.log import Log
from odradek.storage.log_flusher import Flush

logger = logging.getLogger(__name__)

# How often a long start logs how far it is.
_PROGRESS_SECONDS: Final = 5.0


@dataclass(slots=True)
class LoadProgress:
    """The progress of the opening of all logs."""

    logs: int = 0
    logs_opened: int = 0
    """Those that cannot be opened counted in."""
    scanned_bytes: int = 0
    truncated_bytes: int = 0
    started_seconds: float = 0.0
    """When it began, by the monotonic clock."""
    reported_seconds: float = 0.0
    """When a line about it was last logged."""

    def log_opened(self, now_seconds: float) -> None:
        """Count one more log, and log the progress of a long start at intervals."""
        self.logs_opened += 1
        if now_seconds - max(self.reported_seconds, self.started_seconds) >= _PROGRESS_SECONDS:
            self.reported_seconds = now_seconds
            logger.info(
                "%d of %d logs are open after %.0f s; %.1f MB were scanned",
                self.logs_opened,
                self.logs,
                now_seconds - self.started_seconds,
                self.scanned_bytes / 1e6,
            )


class OpenJob:
    """One log to be opened. After `run` either `log` or `error` is set."""

    __slots__ = ("_open_log", "clean", "error", "log", "parent_directory", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        parent_directory: str,
        *,
        clean: bool,
        open_log: Callable[[], Log],
    ) -> None:
        self.topic_partition = topic_partition
        self.parent_directory = parent_directory
        self.clean = clean
        self.log: Log | None = None
        self.error: KafkaStorageError | CorruptRecord | None = None
        self._open_log = open_log

    def run(self) -> None:
        """Open it, which may scan it."""
        try:
            self.log = self._open_log()
        except (KafkaStorageError, CorruptRecord) as error:
            self.error = error


class CloseJob:
    """One log to be closed. After `run` `error` says what went wrong, if anything did."""

    __slots__ = ("error", "flush", "log")

    def __init__(self, log: Log, flush: Flush | None) -> None:
        self.log = log
        self.flush = flush
        self.error: OSError | None = None

    def run(self) -> None:
        """Wait for the device."""
        if self.flush is not None:
            self.error = self.flush.try_sync()


class SpaceCheck:
    """Log directories that refuse writes. After `run`, `with_space` are those that would take some again."""

    __slots__ = ("_directories", "with_space")

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = directories
        self.with_space: list[LogDirectory] = []

    def run(self) -> None:
        """Try each; not two of these at once."""
        self.with_space = [one for one in self._directories if one.has_space()]


class CheckpointJob:
    """Offsets for the checkpoint files of each directory, as they were when this was made."""

    __slots__ = ("_number", "_offsets", "errors")

    def __init__(
        self, offsets: Sequence[tuple[LogDirectory, Mapping[str, dict[TopicPartition, int]]]], *, number: int
    ) -> None:
        """`offsets` by directory and name of the file. A job with a higher `number` has newer ones."""
        self._offsets = offsets
        self._number = number
        self.errors: list[tuple[str, OSError]] = []
        """(directory, what went wrong)."""

    def run(self) -> None:
        """Write them, except where a newer job was quicker."""
        for directory, files in self._offsets:
            try:
                for name, offsets in files.items():
                    directory.write_checkpoint(name, offsets, job_number=self._number)
            except OSError as error:
                self.errors.append((directory.path, error))


class LogShutdown:
    """One stop of a broker: closes its logs, and marks the directories where all of them were closed cleanly."""

    def __init__(self) -> None:
        self._closed: set[TopicPartition] = set()
        # How many logs could not be closed cleanly, by directory.
        self._not_closed_cleanly: Counter[str] = Counter()

    def begin_close(self, logs: Iterator[Log]) -> Iterator[CloseJob]:
        """A job for each of these logs that is not closed yet and has something to sync; the others are closed."""
        for log in logs:
            if log.topic_partition in self._closed:
                continue
            try:
                job = CloseJob(log, log.begin_close(with_parent=False))
            except KafkaStorageError as error:
                self._note_failed_close(log, error)
                continue
            if job.flush is not None:
                yield job
            else:
                self.end_close(job)

    def end_close(self, job: CloseJob) -> None:
        """The log of this job was synced, or could not be."""
        log = job.log
        self._closed.add(log.topic_partition)
        try:
            log.end_close(job.flush, job.error)
        except KafkaStorageError as error:
            self._note_failed_close(log, error)

    def _note_failed_close(self, log: Log, error: KafkaStorageError) -> None:
        self._closed.add(log.topic_partition)
        self._not_closed_cleanly[log.parent_directory] += 1
        # A full disk refuses every log of a directory: the first line says why, `mark_clean` how many there are.
        is_first = self._not_closed_cleanly[log.parent_directory] == 1
        level = logging.ERROR if is_first else logging.DEBUG
        logger.log(level, "%s was not closed cleanly: %s", log.topic_partition, error)

    def mark_clean(self, directory: LogDirectory) -> None:
        """Mark the directory when all of its logs were closed cleanly."""
        if directory.path in self._not_closed_cleanly:
            logger.error(
                "%s is not marked as closed cleanly: %d of its %d logs were not, and the next start scans them",
                directory.path,
                self._not_closed_cleanly[directory.path],
                directory.log_count,
            )
            return
        try:
            directory.mark_clean()
        except OSError as error:
            logger.error("%s cannot be marked as closed cleanly: %s", directory.path, error_text(error))
