"""The log directories of a broker: whose they are, which failed, which refuse writes, what their checkpoints say.

    <directory>/.lock, meta.properties, .kafka_cleanshutdown, recovery-point-offset-checkpoint,
                log-start-offset-checkpoint, replication-offset-checkpoint

A directory that fails takes its own partitions offline and no others. `log_manager` owns the logs in them.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence

from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.storage.checkpoints import CheckpointDamagedError
from odradek.storage.directories.background_jobs import CheckpointJob, SpaceCheck
from odradek.storage.directories.log_directory import DirectoryDescription, LogDirectory
from odradek.storage.disk_space import Shortage, error_text, is_shortage, start_advice
from odradek.storage.files import Disk

logger = logging.getLogger(__name__)


class DirectorySet:
    """One thread at a time, except for the jobs that it gives."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        disk: Disk,
        clock: Clock,
        broker_id: int,
        on_failed: Callable[[LogDirectory], None],
    ) -> None:
        """`on_failed` is called with a directory that has just failed. `broker_id` -1 takes any."""
        self._clock = clock
        self._broker_id = broker_id
        self._on_failed = on_failed
        self.by_path = {
            path: LogDirectory(path, disk=disk) for path in (one.rstrip("/") or "/" for one in paths)
        }
        self.cluster_id: str | None = None
        self.cordoned: frozenset[str] = frozenset()
        """The paths of directories in which no new log is made, while there are others."""
        self._job_numbers = itertools.count(1)

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def paths(self) -> list[str]:
        """All directories, those offline too."""
        return list(self.by_path)

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that have not failed."""
        return [one for one in self.by_path.values() if one.failure is None]

    @property
    def offline(self) -> set[str]:
        """The paths of failed directories."""
        return {one.path for one in self.by_path.values() if one.failure is not None}

    @property
    def failures(self) -> str:
        """The failed directories, each with what failed there and what to do, for people."""
        return ", ".join(
            f"{one.path} ({one.failure}; {one.advice})"
            for one in self.by_path.values()
            if one.failure is not None
        )

    @property
    def stopped_cleanly(self) -> bool:
        """Whether the last run ended cleanly in all of them; false while one is new or cannot be used.

        Known once the logs are loaded.
        """
        return all(one.failure is None and one.was_clean for one in self.by_path.values())

    @property
    def are_complete(self) -> bool:
        """Whether each has everything that was ever written to it. Known once the logs are loaded."""
        return all(one.failure is None and one.is_complete for one in self.by_path.values())

    def mark_complete(self) -> None:
        """The cluster knows which records may be missing here; from now on only a crash of the machine loses more."""
        for directory in self.online:
            try:
                directory.mark_complete()
            except OSError as error:
                # The next start only catches up more than it has to. The next write shows whether the disk fails.
                if is_shortage(error):
                    self.report_shortage(directory.path, error)
                logger.warning(
                    "%s may have to be caught up after a kill: %s", directory.path, error_text(error)
                )

    def directory_id(self, path: str) -> str:
        """The id in the directory's meta.properties; empty when there is none."""
        meta = self.by_path[path].meta
        return meta.directory_id if meta is not None else ""

    def with_fewest_logs(self) -> LogDirectory:
        """The directory for the next log. Raises KafkaStorageError when all are offline."""
        online = self.online
        if not online:
            raise KafkaStorageError(
                f"every log directory of this broker failed: {self.failures}; then start the broker again"
            )
        others = [one for one in online if one.path not in self.cordoned]
        return min(others or online, key=lambda one: one.log_count)

    # --- open ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Lock the directories, making them when needed, and read whose they are.

        Raises DirectoryLocked, SettingError when a directory is another broker's, KafkaStorageError when no
        directory can be used.
        """
        try:
            for directory in self.by_path.values():
                try:
                    directory.open(broker_id=self._broker_id)
                except (OSError, CheckpointDamagedError) as error:
                    self.fail(directory, error)
                    continue
                if directory.meta is not None and directory.meta.cluster_id:
                    self.cluster_id = self.cluster_id or directory.meta.cluster_id
                    directory.require_cluster(self.cluster_id)
            if not self.online:
                raise KafkaStorageError(f"no log directory can be used: {self.failures}")
        except BaseException:
            self.unlock()
            raise

    def set_cluster_id(self, cluster_id: str) -> None:
        """Mark the directories as this broker's and this cluster's; those that are marked must agree.

        Raises SettingError.
        """
        for directory in self.online:
            directory.require_cluster(cluster_id)
        self.cluster_id = cluster_id
        for directory in self.online:
            try:
                directory.mark(cluster_id=cluster_id, broker_id=self._broker_id)
            except OSError as error:
                self.fail(directory, error)

    def unlock(self) -> None:
        """Let another process have them."""
        for directory in self.by_path.values():
            directory.unlock()

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def read_checkpoints(self, name: str) -> dict[TopicPartition, int]:
        """The offsets in the files of this name, of all directories."""
        found: dict[TopicPartition, int] = {}
        for directory in self.online:
            try:
                found.update(directory.read_checkpoint(name))
            except OSError as error:
                self.fail(directory, error)
        return found

    def checkpoint_job(self, offsets: Mapping[str, Mapping[str, dict[TopicPartition, int]]]) -> CheckpointJob:
        """A job that writes offsets by directory and file name; it is handed to `end_checkpoint`."""
        return CheckpointJob(
            [(self.by_path[path], files) for path, files in offsets.items()], number=next(self._job_numbers)
        )

    def remove_checkpoint(self, path: str, name: str) -> None:
        """Remove a checkpoint file of a directory, which goes offline where that fails."""
        directory = self.by_path[path]
        try:
            directory.remove_checkpoint(name)
        except OSError as error:
            self.fail(directory, error)

    def end_checkpoint(self, job: CheckpointJob) -> None:
        """The checkpoints were written, or could not be: a failing directory goes offline."""
        for path, error in job.errors:
            self.report_error(path, error)

    def describe(self, log_bytes: Mapping[str, dict[TopicPartition, int]]) -> list[DirectoryDescription]:
        """Every directory with the logs in it, given by path, and the space on its volume."""
        described = []
        for directory in self.by_path.values():
            try:
                described.append(directory.describe(log_bytes.get(directory.path, {})))
            except OSError as error:
                self.fail(directory, error)
                described.append(directory.describe({}))
        return described

    # --- shortage --------------------------------------------------------------------------------------------------

    def report_shortage(self, path: str, error: OSError) -> None:
        """A write in this directory was refused for want of room: logged once, until `end_space_check` finds room."""
        directory = self.by_path[path]
        if directory.failure is not None:
            return
        now = self._clock.monotonic_seconds()
        if directory.shortage is None:
            directory.shortage = Shortage(error, began_seconds=now, last_seconds=now)
            logger.error("%s", directory.shortage.begin_line(path, directory.free_bytes()))
        directory.shortage.refuse(now)

    @property
    def shortages(self) -> str | None:
        """The directories that refuse writes, why, and what to do, in a sentence each; None while none does."""
        now = self._clock.monotonic_seconds()
        return (
            "; ".join(
                one.shortage.sentence(one.path, one.free_bytes(), now)
                for one in self.online
                if one.shortage is not None
            )
            or None
        )

    def begin_space_check(self) -> SpaceCheck | None:
        """A job that tries the directories that refuse writes, on any thread; None while none does."""
        now = self._clock.monotonic_seconds()
        short = [one for one in self.online if one.shortage is not None and one.shortage.may_end(now)]
        return SpaceCheck(short) if short else None

    def end_space_check(self, check: SpaceCheck) -> None:
        """Accept writes where there was room."""
        for directory in check.with_space:
            shortage, directory.shortage = directory.shortage, None
            if shortage is not None:
                now = self._clock.monotonic_seconds()
                logger.warning("%s", shortage.end_line(directory.path, directory.free_bytes(), now))

    # --- failure ---------------------------------------------------------------------------------------------------

    def report_error(self, path: str, error: OSError) -> None:
        """A call in this directory failed: a shortage refuses writes, anything else takes the directory offline."""
        if is_shortage(error):
            self.report_shortage(path, error)
        else:
            self.fail(self.by_path[path], error)

    def fail(self, directory: LogDirectory, error: Exception) -> None:
        """Take the directory offline; nothing when it is."""
        if directory.failure is not None:
            return
        is_short = isinstance(error, OSError) and is_shortage(error)
        directory.failure = error_text(error)
        directory.advice = start_advice(error)
        directory.shortage = None
        if not is_short:
            self._unmark_complete(directory)
        logger.critical(
            "the log directory %s failed and is offline with all its partitions: %s; %s and start the broker again",
            directory.path,
            directory.failure,
            directory.advice,
        )
        self._on_failed(directory)

    def _unmark_complete(self, directory: LogDirectory) -> None:
        try:
            directory.unmark_complete()
        except OSError as error:
            # The scan of the next start finds out whether its logs are whole.
            logger.error("%s cannot be marked as failed: %s", directory.path, error_text(error))
