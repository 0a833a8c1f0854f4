"""All logs of a broker, in one or several log directories, each marked as this broker's and able to fail alone.

    <directory>/.lock, meta.properties, .kafka_cleanshutdown, recovery-point-offset-checkpoint,
                log-start-offset-checkpoint
    <directory>/<topic>-<partition>/                    one log
    <directory>/<topic>-<partition>.<id>-delete/        one that was deleted, until its delay is over

A directory that fails takes its own partitions offline and no others; they are never made anew elsewhere. New logs
go where the fewest are. What runs when (flushes, checkpoints, retention) is decided above.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.foundation.clock import Clock
from odradek.foundation.errors import CorruptRecord, KafkaStorageError
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.log.checkpoints import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    CheckpointDamagedError,
)
from odradek.log.config import LogConfig
from odradek.log.files import Disk
from odradek.log.log import Log
from odradek.log.placement import read_placement, write_placement
from odradek.log.producers import EXPIRATION_MS_DEFAULT
from odradek.log.storage import SHORTAGES
from odradek.log.volume import DirectoryDescription, Volume, parse_partition

__all__ = ["DirectoryDescription", "LogDirectories"]

logger = logging.getLogger(__name__)

DELETE_SUFFIX: Final = "-delete"
_NAME_BYTES_MAX: Final = 255
# Kafka's own metadata log, and logs that it moves between directories or found without a topic.
_PASSED_OVER_PREFIX: Final = "__cluster_metadata-"
_PASSED_OVER_SUFFIXES: Final = ("-future", "-stray")


class LogDirectories:
    """One thread at a time, save what `removal_due` returns."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        disk: Disk,
        clock: Clock,
        broker_id: int = -1,
        producer_expiration_ms: int = EXPIRATION_MS_DEFAULT,
        on_offline: Callable[[str, str], None] | None = None,
    ) -> None:
        """`on_offline` is called with a directory's path and why it failed. `broker_id` -1 takes any."""
        self._disk = disk
        self._clock = clock
        self._broker_id = broker_id
        self._producer_expiration_ms = producer_expiration_ms
        self._on_offline = on_offline
        self._directories = {
            path: Volume(path, disk=disk) for path in (one.rstrip("/") or "/" for one in paths)
        }
        self._logs: dict[TopicPartition, Log] = {}
        # Partitions that are not to be made anew, and why: their directory failed, or their log cannot be opened.
        self._barred: dict[TopicPartition, str] = {}
        self._removals: list[tuple[float, str]] = []
        self.cluster_id: str | None = None

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def paths(self) -> list[str]:
        """All directories, those offline too."""
        return list(self._directories)

    @property
    def offline(self) -> set[str]:
        """The paths of failed directories."""
        return {one.path for one in self._directories.values() if one.failure is not None}

    def directory_id(self, path: str) -> str:
        """The id in the directory's meta.properties; empty when there is none."""
        meta = self._directories[path].meta
        return meta.directory_id if meta is not None else ""

    def _online(self) -> list[Volume]:
        return [one for one in self._directories.values() if one.failure is None]

    def set_producer_expiration(self, expiration_ms: int) -> None:
        """From now on producers are forgotten after this long, in the logs that are open and those to come."""
        self._producer_expiration_ms = expiration_ms
        for log in self.logs():
            log.producers.expiration_ms = expiration_ms

    def logs(self) -> Iterator[Log]:
        """Every open log; safe to go through while logs come and go."""
        return iter(list(self._logs.values()))

    def may_have_lost(self, log: Log) -> bool:
        """Whether the stop before this start was unclean: records that were in the page cache only may be gone,
        whether or not the file ends in a torn batch.
        """
        return not self._directories[log.path_of_directory].was_clean

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log; None when there is none, or it is offline."""
        return self._logs.get(topic_partition)

    # --- open ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Lock the directories, making them when needed, and learn whose they are.

        Raises DirectoryLocked, SettingError when a directory is another broker's, KafkaStorageError when no
        directory can be used.
        """
        try:
            for directory in self._directories.values():
                try:
                    directory.open(broker_id=self._broker_id)
                except (OSError, CheckpointDamagedError) as error:
                    self._fail(directory, error)
                    continue
                if directory.meta is not None and directory.meta.cluster_id:
                    self.cluster_id = self.cluster_id or directory.meta.cluster_id
                    directory.require_cluster(self.cluster_id)
            if not self._online():
                raise KafkaStorageError(f"no log directory can be used: {', '.join(self._directories)}")
        except BaseException:
            self._unlock()
            raise

    def set_cluster_id(self, cluster_id: str) -> None:
        """Mark the directories as this broker's and this cluster's; those that are marked must agree.

        Raises SettingError.
        """
        for directory in self._online():
            directory.require_cluster(cluster_id)
        self.cluster_id = cluster_id
        for directory in self._online():
            try:
                directory.mark(cluster_id=cluster_id, broker_id=self._broker_id)
            except OSError as error:
                self._fail(directory, error)

    # --- load ------------------------------------------------------------------------------------------------------

    def load(self, configs: Callable[[TopicPartition], LogConfig]) -> None:
        """Open every log that is there. A directory that was closed in order is not scanned.

        Raises KafkaStorageError when one partition lies in two directories.
        """
        for directory in self._online():
            try:
                self._load_directory(directory, configs)
            except OSError as error:
                self._fail(directory, error)
        if len(self._directories) > 1:
            self._bar_lost()

    def _load_directory(self, directory: Volume, configs: Callable[[TopicPartition], LogConfig]) -> None:
        path = directory.path
        clean = directory.take_clean()
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_FILE)
        log_starts = directory.read_checkpoint(LOG_START_FILE)
        started = self._clock.monotonic_seconds()
        scanned = count = 0
        for entry in self._disk.entries(path):
            topic_partition = self._partition_of(directory, entry.name) if entry.is_directory else None
            if topic_partition is None:
                continue
            if topic_partition in self._logs:
                raise KafkaStorageError(
                    f"{topic_partition} lies in {path} and in {self._logs[topic_partition].path_of_directory}: "
                    "remove the one that is older"
                )
            try:
                log = self._open_log(
                    directory,
                    topic_partition,
                    None,
                    configs(topic_partition),
                    log_start_offset=log_starts.get(topic_partition, 0),
                    recovery_point=recovery_points.get(topic_partition, 0),
                    clean=clean,
                )
            except (KafkaStorageError, CorruptRecord) as error:
                if isinstance(error.__cause__, OSError):
                    raise error.__cause__ from error
                logger.error("%s stays offline: %s", topic_partition, error)
                self._barred[topic_partition] = str(error)
                continue
            self._logs[topic_partition] = log
            scanned += log.recovered_bytes
            count += 1
        logger.info(
            "%s: %d logs opened in %.3f s after %s stop; %d bytes were scanned",
            path,
            count,
            self._clock.monotonic_seconds() - started,
            "a clean" if clean else "an unclean",
            scanned,
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
        )

    # --- come and go -----------------------------------------------------------------------------------------------

    def create(self, topic_partition: TopicPartition, topic_id: TopicId | None, config: LogConfig) -> Log:
        """Make a log where the fewest are; the log that is there when there is one.

        Raises KafkaStorageError, also for a partition whose directory is offline.
        """
        known = self._logs.get(topic_partition)
        if known is not None:
            return known
        why = self._barred.get(topic_partition)
        if why is not None:
            raise KafkaStorageError(f"{topic_partition} is offline on this broker: {why}")
        directory = self._emptiest()
        try:
            log = self._open_log(directory, topic_partition, topic_id, config, clean=True)
        except KafkaStorageError as error:
            cause = error.__cause__
            if isinstance(cause, OSError):
                self._log_failed(directory.path, cause, only_if_grave=True)
            raise
        self._logs[topic_partition] = log
        self._write_placement()
        return log

    def _emptiest(self) -> Volume:
        online = self._online()
        if not online:
            raise KafkaStorageError("every log directory of this broker failed: see its log, then restart it")
        if len(online) == 1:
            return online[0]
        counts = dict.fromkeys((one.path for one in online), 0)
        for log in self._logs.values():
            if log.path_of_directory in counts:
                counts[log.path_of_directory] += 1
        return min(online, key=lambda one: counts[one.path])

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename the log away at once; its files go after file.delete.delay.ms. Nothing when there is none.

        Raises KafkaStorageError when the rename fails; the log is closed then all the same.
        """
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
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
        self._write_placement()

    def _write_placement(self) -> None:
        if len(self._directories) < 2:
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

    def checkpoint(self) -> None:
        """Write down recovery points and start offsets of all directories. A failing directory goes offline."""
        for directory in self._online():
            logs = [log for log in self._logs.values() if log.path_of_directory == directory.path]
            points = {log.topic_partition: log.recovery_point for log in logs}
            starts = {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.segments.first.base_offset
            }
            try:
                directory.write_checkpoint(RECOVERY_POINT_FILE, points)
                directory.write_checkpoint(LOG_START_FILE, starts)
            except OSError as error:
                self._log_failed(directory.path, error, only_if_grave=True)

    def describe(self) -> list[DirectoryDescription]:
        """Every directory with the logs in it and the room on its volume."""
        described = []
        for directory in self._directories.values():
            sizes = {
                log.topic_partition: log.size_bytes
                for log in self._logs.values()
                if log.path_of_directory == directory.path
            }
            try:
                described.append(directory.describe(sizes))
            except OSError as error:
                self._log_failed(directory.path, error)
                described.append(directory.describe({}))
        return described

    # --- failure and end -------------------------------------------------------------------------------------------

    def _log_failed(self, path: str, error: OSError, *, only_if_grave: bool = False) -> None:
        if only_if_grave and error.errno in SHORTAGES:
            logger.error("%s: %s", path, error)
            return
        self._fail(self._directories[path], error)

    def _fail(self, directory: Volume, error: Exception) -> None:
        if directory.failure is not None:
            return
        directory.failure = str(error)
        logger.critical(
            "the log directory %s failed and is offline with all its partitions: %s; mend it and restart the broker",
            directory.path,
            error,
        )
        why = f"its log directory {directory.path} failed: {error}"
        for topic_partition, log in list(self._logs.items()):
            if log.path_of_directory == directory.path:
                log.fail(why)
                del self._logs[topic_partition]
                self._barred[topic_partition] = why
        if self._on_offline is not None:
            self._on_offline(directory.path, directory.failure)

    def close(self, *, clean: bool = True) -> None:
        """Close all logs and give the directories back. With `clean`, each directory whose logs could all be
        flushed is marked, so that the next start scans nothing there.
        """
        if clean:
            for directory in self._online():
                self._close_directory(directory)
        else:
            for log in self._logs.values():
                log.fail("the broker stopped")
        self._logs.clear()
        self._unlock()

    def _close_directory(self, directory: Volume) -> None:
        logs = [log for log in self._logs.values() if log.path_of_directory == directory.path]
        failures = 0
        for log in logs:
            try:
                log.close()
            except KafkaStorageError as error:
                failures += 1
                logger.error("%s was not closed in order: %s", log.topic_partition, error)
        if directory.failure is not None:
            return
        self.checkpoint()
        if failures or directory.failure is not None:
            logger.error(
                "%s is not marked as closed in order: its logs are scanned at the next start", directory.path
            )
            return
        try:
            directory.mark_clean()
        except OSError as error:
            logger.error("%s cannot be marked as closed in order: %s", directory.path, error)

    def _unlock(self) -> None:
        for directory in self._directories.values():
            directory.unlock()
