"""All logs of a broker: opened at its start, made where the fewest are, deleted, and closed cleanly at its end.

    <directory>/<topic>-<partition>/                    one log
    <directory>/<topic>-<partition>.<id>-delete/        one that was deleted, until its delay is over

The directories themselves are `volumes`', which this extends. What runs when and on which thread (opening, closing,
flushes, checkpoints, retention) is decided above: `begin_load`, `begin_close`, `begin_checkpoint` and `removal_due`
give pieces of work that may run on any thread, and what comes of them is handed back.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.log.checkpoints import LOG_START_FILE, RECOVERY_POINT_FILE
from odradek.log.config import LogConfig
from odradek.log.log import Log
from odradek.log.pieces import Closing, Opening
from odradek.log.placement import read_placement, write_placement
from odradek.log.volume import DirectoryDescription, Volume, parse_partition
from odradek.log.volumes import Volumes

__all__ = ["DirectoryDescription", "LogDirectories"]

logger = logging.getLogger(__name__)

DELETE_SUFFIX: Final = "-delete"
_NAME_BYTES_MAX: Final = 255
# How often a long start says how far it has come.
_PROGRESS_SECONDS: Final = 5.0
# Kafka's own metadata log, and logs that it moves between directories or found without a topic.
_PASSED_OVER_PREFIX: Final = "__cluster_metadata-"
_PASSED_OVER_SUFFIXES: Final = ("-future", "-stray")


class LogDirectories(Volumes):
    """One thread at a time, save what the pieces of work do."""

    # --- load ------------------------------------------------------------------------------------------------------

    def load(self, configs: Callable[[TopicPartition], LogConfig]) -> None:
        """Open every log that is there, one after the other. A directory that was closed cleanly is not scanned.

        Raises KafkaStorageError when one partition lies in two directories.
        """
        for opening in self.begin_load(configs):
            opening.run()
            self.take_in(opening)
        self.end_load()

    def begin_load(self, configs: Callable[[TopicPartition], LogConfig]) -> list[Opening]:
        """One piece of work for each log that is there; each is run, on any thread, and then taken in.

        Raises KafkaStorageError when one partition lies in two directories.
        """
        self.progress.started_seconds = self._clock.monotonic_seconds()
        openings: dict[TopicPartition, Opening] = {}
        for directory in self._online():
            try:
                for opening in self._openings(directory, configs):
                    other = openings.setdefault(opening.topic_partition, opening)
                    if other is not opening:
                        raise KafkaStorageError(
                            f"{opening.topic_partition} lies in {directory.path} and in {other.path_of_directory}: "
                            "remove the one that is older"
                        )
            except OSError as error:
                self._fail(directory, error)
        found = [one for one in openings.values() if self._directories[one.path_of_directory].failure is None]
        self.progress.logs = len(found)
        return found

    def _openings(
        self, directory: Volume, configs: Callable[[TopicPartition], LogConfig]
    ) -> Iterator[Opening]:
        clean = directory.take_clean()
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_FILE)
        log_starts = directory.read_checkpoint(LOG_START_FILE)
        for entry in self._disk.entries(directory.path):
            topic_partition = self._partition_of(directory, entry.name) if entry.is_directory else None
            if topic_partition is not None:
                yield Opening(
                    topic_partition,
                    directory.path,
                    clean=clean,
                    open_log=partial(
                        self._open_log,
                        directory,
                        topic_partition,
                        None,
                        configs(topic_partition),
                        log_start_offset=log_starts.get(topic_partition, 0),
                        recovery_point=recovery_points.get(topic_partition, 0),
                        clean=clean,
                    ),
                )

    def take_in(self, opening: Opening) -> None:
        """A log was opened, or cannot be; a failing disk takes its directory offline."""
        directory = self._directories[opening.path_of_directory]
        topic_partition, log, error = opening.topic_partition, opening.log, opening.error
        if log is not None:
            self.progress.scanned_bytes += log.recovered_bytes
            self.progress.cut_bytes += log.cut_bytes
        self._tell_progress()
        if error is not None and isinstance(error.__cause__, OSError):
            self._fail(directory, error.__cause__)
        if directory.failure is not None:
            self._barred[topic_partition] = f"its log directory {directory.path} failed: {directory.failure}"
            if log is not None:
                log.fail(self._barred[topic_partition])
        elif error is not None:
            logger.error("%s stays offline: %s", topic_partition, error)
            self._barred[topic_partition] = str(error)
        elif log is not None:
            self._logs[topic_partition] = log
            directory.log_count += 1

    def _tell_progress(self) -> None:
        progress = self.progress
        progress.logs_opened += 1
        now = self._clock.monotonic_seconds()
        if now - max(progress.told_seconds, progress.started_seconds) >= _PROGRESS_SECONDS:
            progress.told_seconds = now
            logger.info(
                "%d of %d logs are open after %.0f s; %.1f MB were scanned",
                progress.logs_opened,
                progress.logs,
                now - progress.started_seconds,
                progress.scanned_bytes / 1e6,
            )

    def end_load(self) -> None:
        """All logs were taken in."""
        if len(self._directories) > 1:
            self._bar_lost()
        for directory in self._online():
            if not directory.log_count:
                logger.info("%s: there are no logs in it yet", directory.path)
                continue
            logger.info(
                "%s: %d logs opened in %.3f s after %s stop; %d bytes were scanned",
                directory.path,
                directory.log_count,
                self._clock.monotonic_seconds() - self.progress.started_seconds,
                "a clean" if directory.was_clean else "an unclean",
                self.progress.scanned_bytes,
            )

    def _partition_of(self, directory: Volume, name: str) -> TopicPartition | None:
        """The partition whose log a subdirectory is; None when it is none that is to be opened."""
        if name.endswith(DELETE_SUFFIX):
            self._removals.append((self._clock.monotonic_seconds(), f"{directory.path}/{name}"))
            return None
        if name.startswith(_PASSED_OVER_PREFIX):
            return None
        if name.endswith(_PASSED_OVER_SUFFIXES):
            logger.warning(
                "%s/%s is left as it is: logs that Kafka was moving are not taken over", directory.path, name
            )
            return None
        return parse_partition(name)

    def _bar_lost(self) -> None:
        """Remember what the directories that could not be opened held."""
        online = [one.path for one in self._online()]
        failed = {one.path: one.failure for one in self._directories.values() if one.failure is not None}
        for path, found in read_placement(self._disk, online).items():
            for topic_partition in found:
                if path in failed and topic_partition not in self._logs:
                    self._barred[topic_partition] = f"its log directory {path} failed: {failed[path]}"

    def _open_log(
        self,
        directory: Volume,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        config: LogConfig,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean: bool,
    ) -> Log:
        return Log.open(
            f"{directory.path}/{topic_partition}",
            topic_partition,
            config=config,
            disk=self._disk,
            clock=self._clock,
            topic_id=topic_id,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean=clean,
            producer_expiration_ms=self._producer_expiration_ms,
            on_failure=self._log_failed,
            on_shortage=self.note_shortage,
        )

    # --- come and go -----------------------------------------------------------------------------------------------

    def create(self, topic_partition: TopicPartition, topic_id: TopicId | None, config: LogConfig) -> Log:
        """Make a log where the fewest are; the log that is there when there is one. `note_places` is due before
        anything is appended to it.

        Raises KafkaStorageError, also for a partition whose directory is offline.
        """
        known = self._logs.get(topic_partition)
        if known is not None:
            return known
        why = self._barred.get(topic_partition)
        if why is not None:
            raise KafkaStorageError(f"{topic_partition} is offline on this broker: {why}")
        directory = self._emptiest()
        path = f"{directory.path}/{topic_partition}"
        was_there = True
        try:
            was_there = self._disk.exists(path)
            log = self._open_log(directory, topic_partition, topic_id, config, clean=True)
        except (OSError, KafkaStorageError) as error:
            if not was_there:
                self._remove_unmade(path)
            cause = error if isinstance(error, OSError) else error.__cause__
            if isinstance(cause, OSError):
                self._log_failed(directory.path, cause, only_if_grave=True)
            if error is cause:
                raise KafkaStorageError(f"the log of {topic_partition} cannot be made: {error}") from error
            raise
        self._logs[topic_partition] = log
        directory.log_count += 1
        self._are_places_due = True
        return log

    def _remove_unmade(self, path: str) -> None:
        """Take away what there is of a log that could not be made: nobody would know of it when its topic goes."""
        try:
            if self._disk.exists(path):
                self._disk.remove_tree(path)
        except OSError as error:
            logger.error("%s is left over, and put aside at the next start: %s", path, error)

    def _emptiest(self) -> Volume:
        online = self._online()
        if not online:
            raise KafkaStorageError(
                f"every log directory of this broker failed: {self.failures}; then start the broker again"
            )
        return min(online, key=lambda one: one.log_count)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename the log away at once; its files go after file.delete.delay.ms. Nothing when there is none.
        `note_places` is due once the last of several is deleted.

        Raises KafkaStorageError when the rename fails; the log is closed then all the same.
        """
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        self._directories[log.path_of_directory].log_count -= 1
        log.mark_deleted()
        suffix = f".{uuid.uuid4().hex}{DELETE_SUFFIX}"
        name = str(topic_partition)
        target = f"{log.path_of_directory}/{name[: _NAME_BYTES_MAX - len(suffix)]}{suffix}"
        try:
            self._disk.rename(log.directory, target)
        except OSError as error:
            self._barred[topic_partition] = f"its files could not be renamed away: {error}"
            self._log_failed(log.path_of_directory, error, only_if_grave=True)
            raise KafkaStorageError(f"the files of {topic_partition} cannot be deleted: {error}") from error
        due_at = self._clock.monotonic_seconds() + log.config.file_delete_delay_ms / 1000
        self._removals.append((due_at, target))
        self._are_places_due = True

    def note_places(self) -> None:
        """Write down which directory holds which log, if that has changed: all of it, so once for many changes."""
        is_due, self._are_places_due = self._are_places_due, False
        if not is_due or len(self._directories) < 2:
            return
        placed: dict[str, list[TopicPartition]] = {path: [] for path in self._directories}
        for topic_partition, log in self._logs.items():
            placed[log.path_of_directory].append(topic_partition)
        for path in self.offline:
            placed[path] += self._barred
        for directory in self._online():
            try:
                write_placement(self._disk, directory.path, placed)
            except OSError as error:
                # Each directory has a copy; the next change writes them all again.
                self._log_failed(directory.path, error, only_if_grave=True)

    # --- now and then ----------------------------------------------------------------------------------------------

    def flush_due(self, now_ms: int) -> list[Log]:
        """The logs whose flush is due at the wall clock's `now_ms`."""
        return [log for log in self._logs.values() if log.is_flush_due(now_ms)]

    def removal_due(self) -> Callable[[], None] | None:
        """What removes the deleted directories and segments that are due, on any thread; None when none are.

        Raises OSError when called; what was not removed then is removed at the next start.
        """
        now = self._clock.monotonic_seconds()
        trees = [path for due_at, path in self._removals if due_at <= now]
        self._removals = [(due_at, path) for due_at, path in self._removals if due_at > now]
        files = [path for log in self._logs.values() for path in log.take_removals(now)]
        if not trees and not files:
            return None

        def remove() -> None:
            for path in files:
                self._disk.remove(path)
            for path in trees:
                self._disk.remove_tree(path)

        return remove

    def delete_due(self) -> None:
        """Remove what is due here and now. Raises OSError."""
        remove = self.removal_due()
        if remove is not None:
            remove()

    # --- failure and end -------------------------------------------------------------------------------------------

    def begin_close(self) -> Iterator[Closing]:
        """One piece of work for each log that has something to sync; each is run, on any thread, and handed to
        `end_close`. Appends must have ended. What is not closed this way `close` closes.
        """
        for log in self.logs():
            if log.topic_partition in self._closed:
                continue
            closing = None
            try:
                closing = Closing(log, log.begin_close(with_parent=False))
            except KafkaStorageError as error:
                self._failed_to_close(log, error)
            if closing is not None and closing.flush is not None:
                yield closing
            elif closing is not None:
                self.end_close(closing)

    def end_close(self, closing: Closing) -> None:
        """The log of this piece was synced, or could not be."""
        log = closing.log
        self._closed.add(log.topic_partition)
        try:
            log.end_close(closing.flush, closing.error)
        except KafkaStorageError as error:
            self._failed_to_close(log, error)

    def _failed_to_close(self, log: Log, error: KafkaStorageError) -> None:
        self._closed.add(log.topic_partition)
        self._not_closed_cleanly[log.path_of_directory] += 1
        # A full disk keeps every log of a directory from it: the first says why, `_mark_clean` how many there are.
        is_told = self._not_closed_cleanly[log.path_of_directory] > 1
        level = logging.DEBUG if is_told else logging.ERROR
        logger.log(level, "%s was not closed cleanly: %s", log.topic_partition, error)

    def close(self, *, clean: bool = True) -> None:
        """Close all logs and give the directories back. With `clean`, each directory whose logs could all be
        flushed is marked, so that the next start scans nothing there.
        """
        if clean:
            for closing in self.begin_close():
                closing.run()
                self.end_close(closing)
            # The logs are closed: their offsets are final, and this brings the directories' names to the device.
            self.checkpoint()
            for directory in self._online():
                self._mark_clean(directory)
        else:
            for log in self._logs.values():
                log.fail("the broker stopped")
        self._logs.clear()
        self._unlock()

    def _mark_clean(self, directory: Volume) -> None:
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
