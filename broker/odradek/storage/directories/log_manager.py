"""All logs of a broker: opened at its start, created, deleted, and closed cleanly at its end (Kafka's `LogManager`).

    <directory>/<topic>-<partition>/                    one log
    <directory>/<topic>-<partition>.<id>-delete/        one that was deleted, until its delay is over
    <directory>/<topic>-<partition>.<id>-stray/         one whose deletion was not requested: kept for an administrator
    <directory>/<topic>-<partition>.<id>-future/        the copy of one that moves to this directory

`directory_set` has the directories themselves. The caller decides what runs when and on which thread. `begin_load`,
`begin_close`, `begin_checkpoint` and `removal_due` return jobs that may run on any thread. The caller then passes their
results back.

A broker with several directories must know what a failed one held. Otherwise it would create these partitions, empty,
in another directory. So each directory has a file, `odradek-placement`, that says which directory holds which
partition. It is Odradek's own: one JSON object of directory to names, which Kafka ignores. A broker with one directory
needs none and writes none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicId, TopicPartition
from odradek.storage.checkpoints import CLEANER_FILE, LOG_START_FILE, RECOVERY_POINT_FILE, REPLICATION_FILE
from odradek.storage.config import LogConfig
from odradek.storage.directories.background_jobs import (
    CheckpointJob,
    CloseJob,
    LoadProgress,
    LogShutdown,
    OpenJob,
)
from odradek.storage.directories.directory_set import DirectorySet
from odradek.storage.directories.log_directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    DirectoryDescription,
    LogDirectory,
    path_with_suffix,
)
from odradek.storage.directories.log_mover import LogMover
from odradek.storage.disk_space import error_text
from odradek.storage.files import Disk
from odradek.storage.log import Log
from odradek.storage.open_files import OpenFiles
from odradek.storage.producer_rules import ProducerRules

__all__ = ["DirectoryDescription", "LogManager"]

logger = logging.getLogger(__name__)

PLACEMENT_FILE: Final = "odradek-placement"


class LogManager:
    """One thread at a time, except for the jobs that it gives."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        disk: Disk,
        clock: Clock,
        broker_id: int = -1,
        on_offline: Callable[[str, str], None] | None = None,
        progress: LoadProgress | None = None,
    ) -> None:
        """`on_offline` is called with a directory's path and why it failed. `broker_id` -1 takes any."""
        self._disk = disk
        self._clock = clock
        self.producer_rules = ProducerRules()
        """When producers are forgotten and transactions verified, in the open logs and those to come."""
        self._on_offline = on_offline
        self._open_files = OpenFiles()
        self.directories = DirectorySet(
            paths, disk=disk, clock=clock, broker_id=broker_id, on_failed=self._directory_failed
        )
        self._logs: dict[TopicPartition, Log] = {}
        # Partitions that must not be created, and why: their directory failed, or their log cannot be opened.
        self._offline_partitions: dict[TopicPartition, str] = {}
        # Whether a log was created or deleted since the placement was written.
        self._is_placement_changed = False
        # (when due, monotonic seconds; path) of the directories of deleted logs.
        self._removals: list[tuple[float, str]] = []
        self._shutdown = LogShutdown()
        self.moves = LogMover(
            disk=disk,
            directories=self.directories,
            logs=self._logs,
            placed=lambda: read_placement(disk, [one.path for one in self.directories.online]),
            remove_later=lambda path: self._removals.append((clock.monotonic_seconds(), path)),
            on_moved=self._log_moved,
        )
        """Moves of logs between the directories."""
        self.on_log_changed: Callable[[Log], None] | None = None
        """Called with a log that was truncated, moved, deleted, or cannot be used any more."""
        self._checkpoints = LogCheckpoints(self.directories, self._logs)
        self.begin_checkpoint = self._checkpoints.begin
        self.begin_high_watermark_checkpoint = self._checkpoints.begin_high_watermarks
        self.begin_cleaner_checkpoint = self._checkpoints.begin_cleaner
        self.progress = progress or LoadProgress()
        """The progress of the opening of the logs."""

    @property
    def is_complete(self) -> bool:
        """Whether no acknowledged record can be missing. Known once the logs are loaded.

        The last run ended cleanly, or only its process died, and every log is whole.
        """
        return not self._offline_partitions and self.directories.are_complete

    def logs(self) -> Iterator[Log]:
        """Every open log; logs may come and go during the iteration."""
        return iter(list(self._logs.values()))

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log; None when there is none, or it is offline."""
        return self._logs.get(topic_partition)

    def may_have_lost(self, log: Log) -> bool:
        """Whether the last stop was unclean, so that records which were only in the page cache may be gone."""
        return not self.directories.by_path[log.parent_directory].was_clean

    # --- load ------------------------------------------------------------------------------------------------------

    def begin_load(self, configs: Callable[[TopicPartition], LogConfig]) -> list[OpenJob]:
        """One job for each log that is there; each is run, on any thread, and its result is then passed back.

        Raises KafkaStorageError when one partition lies in two directories.
        """
        self.progress.started_seconds = self._clock.monotonic_seconds()
        openings: dict[TopicPartition, OpenJob] = {}
        for directory in self.directories.online:
            try:
                for opening in self._openings(directory, configs):
                    other = openings.setdefault(opening.topic_partition, opening)
                    if other is not opening:
                        openings[opening.topic_partition] = self._newer_of(opening, other)
            except OSError as error:
                self.directories.fail(directory, error)
        found = [
            one for one in openings.values() if self.directories.by_path[one.parent_directory].failure is None
        ]
        self.progress.logs = len(found)
        return found

    def _newer_of(self, one: OpenJob, other: OpenJob) -> OpenJob:
        """Which of two logs of one partition is served. The other one is put away: it has moved."""
        topic_partition, paths = one.topic_partition, (one.parent_directory, other.parent_directory)
        newer = self.moves.newer_of(topic_partition, *paths)
        if newer is None:
            raise KafkaStorageError(
                f"{topic_partition} lies in {paths[0]} and in {paths[1]}: remove the one that is older"
            )
        served, old = (one, other) if newer == paths[0] else (other, one)
        self.moves.put_away(old.parent_directory, topic_partition)
        return served

    def _openings(
        self, directory: LogDirectory, configs: Callable[[TopicPartition], LogConfig]
    ) -> Iterator[OpenJob]:
        clean = directory.take_clean()
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_FILE)
        log_starts = directory.read_checkpoint(LOG_START_FILE)
        cleaned = directory.read_checkpoint(CLEANER_FILE)
        found, deleted, copies = directory.list_logs()
        for path in copies:
            self.moves.note_unfinished(path)
        now = self._clock.monotonic_seconds()
        self._removals += [(now, path) for path in (*deleted, *copies)]
        elsewhere = self.moves.find_elsewhere(directory)
        for topic_partition in found:
            if topic_partition in elsewhere:
                continue
            yield OpenJob(
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
                    cleaned_offset=cleaned.get(topic_partition, -1),
                    clean=clean,
                ),
            )

    def end_open(self, job: OpenJob) -> None:
        """The log of this job was opened, or cannot be; a failing disk takes its directory offline."""
        directory = self.directories.by_path[job.parent_directory]
        topic_partition, log, error = job.topic_partition, job.log, job.error
        if log is not None:
            self.progress.scanned_bytes += log.recovered_bytes
            self.progress.truncated_bytes += log.truncated_bytes
        self.progress.log_opened(self._clock.monotonic_seconds())
        if error is not None and isinstance(error.__cause__, OSError):
            self.directories.fail(directory, error.__cause__)
        if directory.failure is not None:
            self._offline_partitions[topic_partition] = (
                f"its log directory {directory.path} failed: {directory.failure}"
            )
            if log is not None:
                log.fail(self._offline_partitions[topic_partition])
        elif error is not None:
            logger.error("%s stays offline: %s", topic_partition, error)
            self._offline_partitions[topic_partition] = str(error)
        elif log is not None:
            self._logs[topic_partition] = log
            directory.log_count += 1

    def end_load(self) -> None:
        if len(self.directories.by_path) > 1:
            self._mark_lost_offline()
        self._lower_cleaned_offsets(self._logs.values())
        for directory in self.directories.online:
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

    def _mark_lost_offline(self) -> None:
        """Remember what the directories that could not be opened held."""
        online = [one.path for one in self.directories.online]
        failed = {
            one.path: one.failure for one in self.directories.by_path.values() if one.failure is not None
        }
        for path, found in read_placement(self._disk, online).items():
            for topic_partition in found:
                if path in failed and topic_partition not in self._logs:
                    self._offline_partitions[topic_partition] = (
                        f"its log directory {path} failed: {failed[path]}"
                    )

    def _open_log(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        config: LogConfig,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        cleaned_offset: int = -1,
        clean: bool,
    ) -> Log:
        log = Log.open(
            f"{directory.path}/{topic_partition}",
            topic_partition,
            config=config,
            disk=self._disk,
            clock=self._clock,
            topic_id=topic_id,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean=clean,
            producer_rules=self.producer_rules,
            open_files=self._open_files,
            on_failure=self._log_failed,
            on_shortage=self.directories.report_shortage,
            on_loss=directory.note_loss,
        )
        log.offsets.cleaned_offset = min(cleaned_offset, log.log_end_offset)
        log.offsets.on_truncated = partial(self._log_truncated, log)
        return log

    def _log_truncated(self, log: Log) -> None:
        self.moves.note_truncation(log)
        self._lower_cleaned_offsets([log])
        self._log_changed(log)

    def _log_moved(self, log: Log) -> None:
        self._is_placement_changed = True
        self.save_placement()
        # A round of compaction has written beside the files of before.
        self._log_changed(log)

    def _log_changed(self, log: Log) -> None:
        if self.on_log_changed is not None:
            self.on_log_changed(log)

    # --- come and go -----------------------------------------------------------------------------------------------

    def create(self, topic_partition: TopicPartition, topic_id: TopicId | None, config: LogConfig) -> Log:
        """Make a log where the fewest are; the log that is there when there is one. `save_placement` is due before
        anything is appended to it.

        Raises KafkaStorageError, also for a partition whose directory is offline.
        """
        if (known := self._logs.get(topic_partition)) is not None:
            return known
        why = self._offline_partitions.get(topic_partition)
        if why is not None:
            raise KafkaStorageError(f"{topic_partition} is offline on this broker: {why}")
        directory = self.moves.take_chosen(topic_partition) or self.directories.with_fewest_logs()
        path = f"{directory.path}/{topic_partition}"
        was_there = True
        try:
            was_there = self._disk.exists(path)
            log = self._open_log(directory, topic_partition, topic_id, config, clean=True)
        except (OSError, KafkaStorageError) as error:
            if not was_there:
                self._remove_leftover(path)
            cause = error if isinstance(error, OSError) else error.__cause__
            if isinstance(cause, OSError):
                self.directories.report_error(directory.path, cause)
            if error is cause:
                raise KafkaStorageError(f"the log of {topic_partition} cannot be made: {error}") from error
            raise
        self._logs[topic_partition] = log
        directory.log_count += 1
        self._is_placement_changed = True
        # An older log of this name may have been compacted.
        self._lower_cleaned_offsets([log])
        return log

    def _remove_leftover(self, path: str) -> None:
        """Remove the files of a log that could not be created: a deletion of its topic would not find them."""
        try:
            if self._disk.exists(path):
                self._disk.remove_tree(path)
        except OSError as error:
            logger.error("%s is left over, and put aside at the next start: %s", path, error_text(error))

    def delete(self, topic_partition: TopicPartition, *, is_stray: bool = False) -> None:
        """Rename the log away at once; its files go after file.delete.delay.ms, those of a stray log never.

        `save_placement` is due once the last of several is deleted. Nothing happens when there is no such log. Raises
        KafkaStorageError when the rename fails; the log is closed in any case.
        """
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return
        self.directories.by_path[log.parent_directory].log_count -= 1
        self.moves.cancel(topic_partition)
        log.mark_deleted()
        self._log_changed(log)
        target = path_with_suffix(
            log.parent_directory, topic_partition, STRAY_SUFFIX if is_stray else DELETE_SUFFIX
        )
        try:
            self._disk.rename(log.directory, target)
        except OSError as error:
            self._offline_partitions[topic_partition] = (
                f"its files could not be renamed away: {error_text(error)}"
            )
            self.directories.report_error(log.parent_directory, error)
            raise KafkaStorageError(
                f"the files of {topic_partition} cannot be deleted: {error_text(error)}"
            ) from error
        if not is_stray:
            due_at = self._clock.monotonic_seconds() + log.config.file_delete_delay_ms / 1000
            self._removals.append((due_at, target))
        self._is_placement_changed = True

    def save_placement(self) -> None:
        """Write down which directory holds which log, if that has changed: all of it, so once for many changes."""
        is_due, self._is_placement_changed = self._is_placement_changed, False
        if not is_due or len(self.directories.by_path) < 2:
            return
        placed: dict[str, list[TopicPartition]] = {path: [] for path in self.directories.paths}
        for topic_partition, log in self._logs.items():
            placed[log.parent_directory].append(topic_partition)
        for path in self.directories.offline:
            placed[path] += self._offline_partitions
        for directory in self.directories.online:
            try:
                write_placement(self._disk, directory.path, placed)
            except OSError as error:
                # Each directory has a copy; the next change writes them all again.
                self.directories.report_error(directory.path, error)

    # --- checkpoints and maintenance -------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the recovery points and start offsets of all directories. A failing directory goes offline."""
        job = self.begin_checkpoint()
        job.run()
        self.end_checkpoint(job)

    def _lower_cleaned_offsets(self, logs: Iterable[Log]) -> None:
        """Write the cleaner's checkpoint at once if it says that more of these logs is compacted than is.

        That is rare: recovery or a new leader removed records that were compacted, or a topic is made again.
        """
        if any(self._checkpoints.may_exceed_cleaned(log) for log in logs):
            job = self.begin_cleaner_checkpoint()
            job.run()
            for path, _ in job.errors:
                # A full disk. Without the file every log counts as dirty, which is never wrong.
                self.directories.remove_checkpoint(path, CLEANER_FILE)
            self.end_checkpoint(job)

    def end_checkpoint(self, job: CheckpointJob) -> None:
        """The checkpoints were written, or could not be: a failing directory goes offline."""
        self.directories.end_checkpoint(job)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """High watermarks as they were last checkpointed, of all directories."""
        return self.directories.read_checkpoints(REPLICATION_FILE)

    def describe(self) -> list[DirectoryDescription]:
        """Every directory with the logs in it and the space on its volume."""
        log_bytes: dict[str, dict[TopicPartition, int]] = {}
        for topic_partition, log in self._logs.items():
            log_bytes.setdefault(log.parent_directory, {})[topic_partition] = log.size_bytes
        return self.directories.describe(log_bytes)

    def flush_due(self, now_ms: int) -> list[Log]:
        """The logs whose flush is due at the wall clock's `now_ms`."""
        return [log for log in self._logs.values() if log.is_flush_due(now_ms)]

    def removal_due(self) -> Callable[[], None] | None:
        """A function that removes the deleted directories and segments that are due, on any thread; None when none are.

        Raises OSError when called; what was not removed then is removed at the next start.
        """
        now = self._clock.monotonic_seconds()
        trees = [path for due_at, path in self._removals if due_at <= now]
        self._removals = [(due_at, path) for due_at, path in self._removals if due_at > now]
        files = [path for log in self._logs.values() for path in log.segments.pop_due_deletes(now)]
        if not trees and not files:
            return None

        def remove() -> None:
            for path in files:
                self._disk.remove(path)
            for path in trees:
                if path.endswith(FUTURE_SUFFIX):
                    self.moves.discard(path)
                else:
                    self._disk.remove_tree(path)

        return remove

    # --- failure and end -------------------------------------------------------------------------------------------

    def _log_failed(self, path: str, error: OSError) -> None:
        self.directories.fail(self.directories.by_path[path], error)

    def _directory_failed(self, directory: LogDirectory) -> None:
        why = f"its log directory {directory.path} failed: {directory.failure}"
        for topic_partition, log in list(self._logs.items()):
            if log.parent_directory == directory.path:
                self.moves.cancel(topic_partition)
                log.fail(why)
                self._log_changed(log)
                del self._logs[topic_partition]
                self._offline_partitions[topic_partition] = why
        if self._on_offline is not None:
            self._on_offline(directory.path, directory.failure or "")

    def begin_close(self) -> Iterator[CloseJob]:
        """One job for each log that has something to sync; each is run, on any thread, and handed to `end_close`.

        Appends must have ended. `close` closes what is not closed this way.
        """
        return self._shutdown.begin_close(self.logs())

    def end_close(self, job: CloseJob) -> None:
        """The log of this job was synced, or could not be."""
        self._shutdown.end_close(job)

    def close(self, *, clean: bool = True) -> None:
        """Close all logs and unlock the directories.

        With `clean`, each directory whose logs could all be flushed is marked, so that the next start scans nothing
        there.
        """
        if clean:
            for job in self.begin_close():
                job.run()
                self.end_close(job)
            # The logs are closed: their offsets are final, and this syncs the directories' names to the device.
            self.checkpoint()
            for directory in self.directories.online:
                self._shutdown.mark_clean(directory)
        else:
            for log in self._logs.values():
                log.fail("the broker stopped")
        self._logs.clear()
        self.directories.unlock()


def write_placement(disk: Disk, path: str, placed: Mapping[str, Iterable[TopicPartition]]) -> None:
    """Replace the file in the directory `path`; `placed` is directory to partitions. Raises OSError."""
    names = {directory: [str(one) for one in partitions] for directory, partitions in placed.items()}
    disk.replace(f"{path}/{PLACEMENT_FILE}", json.dumps(names, sort_keys=True).encode(), sync=False)


def read_placement(disk: Disk, paths: Iterable[str]) -> dict[str, set[TopicPartition]]:
    """The contents of the files in `paths`, together; a damaged one is passed over. Raises OSError."""
    found: dict[str, set[TopicPartition]] = {}
    for path in paths:
        try:
            known = json.loads(disk.read(f"{path}/{PLACEMENT_FILE}"))
            for directory, names in known.items():
                for name in names:
                    topic, _, partition = name.rpartition("-")
                    found.setdefault(directory, set()).add(TopicPartition(topic, int(partition)))
        except FileNotFoundError:
            continue
        except (ValueError, AttributeError, TypeError) as error:
            logger.warning("%s/%s cannot be read and is passed over: %s", path, PLACEMENT_FILE, error)
    return found


class LogCheckpoints:
    """Jobs that write the offsets of all logs into the checkpoint files of their directories.

    Each is made on the logs' own thread, with a copy of the offsets of that time. It runs on any thread, and its result
    is passed back to `LogManager.end_checkpoint`.

    `logs` are those of the log manager, which it changes.
    """

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
        written = directory.checkpoint_offset(CLEANER_FILE, log.topic_partition)
        return max(written, self._cleaned.get(log.topic_partition, -1)) > log.offsets.cleaned_offset

    def _empty(self, *names: str) -> dict[str, dict[str, dict[TopicPartition, int]]]:
        return {directory.path: {name: {} for name in names} for directory in self._directories.online}
