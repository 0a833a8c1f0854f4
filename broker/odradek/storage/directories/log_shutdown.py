"""Closes the logs of a broker that stops, and marks the directories where all of them were closed cleanly."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.storage.directories.background_jobs import CloseJob
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.log import Log

logger = logging.getLogger(__name__)


class LogShutdown:
    """One stop of a broker."""

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
                self._failed_to_close(log, error)
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
            self._failed_to_close(log, error)

    def _failed_to_close(self, log: Log, error: KafkaStorageError) -> None:
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
            logger.error("%s cannot be marked as closed cleanly: %s", directory.path, error)
