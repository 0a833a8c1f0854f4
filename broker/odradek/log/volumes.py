"""The log directories of a broker as places: whose they are, which failed, what their checkpoints say.

    <directory>/.lock, meta.properties, .kafka_cleanshutdown, recovery-point-offset-checkpoint,
                log-start-offset-checkpoint, replication-offset-checkpoint

A directory that fails takes its own partitions offline and no others; they are never made anew elsewhere. Which logs
come and go is `directory`'s, which extends this.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.log.checkpoints import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_FILE,
    CheckpointDamagedError,
)
from odradek.log.files import Disk
from odradek.log.log import Log
from odradek.log.pieces import CheckpointWrite, LoadProgress, RoomTrial
from odradek.log.producers import EXPIRATION_MS_DEFAULT
from odradek.log.room import Shortage, is_shortage, start_advice, words_of
from odradek.log.volume import DirectoryDescription, Volume

logger = logging.getLogger(__name__)


class Volumes:
    """The directories, and the logs that are open in them."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        disk: Disk,
        clock: Clock,
        broker_id: int = -1,
        producer_expiration_ms: int = EXPIRATION_MS_DEFAULT,
        on_offline: Callable[[str, str], None] | None = None,
        progress: LoadProgress | None = None,
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
        # Whether what `odradek-placement` says of them is old.
        self._are_places_due = False
        # Partitions that are not to be made anew, and why: their directory failed, or their log cannot be opened.
        self._barred: dict[TopicPartition, str] = {}
        self._removals: list[tuple[float, str]] = []
        # What was closed, well or not, while the broker stops; and directories where that failed.
        self._closed: set[TopicPartition] = set()
        self._not_closed_cleanly: Counter[str] = Counter()
        self.cluster_id: str | None = None
        self.progress = progress or LoadProgress()
        """How far the opening of the logs has come."""

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def paths(self) -> list[str]:
        """All directories, those offline too."""
        return list(self._directories)

    @property
    def offline(self) -> set[str]:
        """The paths of failed directories."""
        return {one.path for one in self._directories.values() if one.failure is not None}

    @property
    def failures(self) -> str:
        """The failed directories, each with what failed there and what to do, for people."""
        return ", ".join(
            f"{one.path} ({one.failure}; {one.advice})"
            for one in self._directories.values()
            if one.failure is not None
        )

    @property
    def stopped_cleanly(self) -> bool:
        """Whether the last run ended in order in all of them. Known once the logs are loaded. A directory that is new,
        or cannot be used, vouches for nothing.
        """
        return all(one.failure is None and one.was_clean for one in self._directories.values())

    @property
    def has_all(self) -> bool:
        """Whether nothing acknowledged can be missing: the last run ended in order, or only the process died, and every
        log is whole. Known once the logs are loaded.
        """
        is_whole = self.stopped_cleanly or not self.progress.cut_bytes
        return (
            is_whole
            and not self._barred
            and all(one.failure is None and one.has_all for one in self._directories.values())
        )

    def vouch(self) -> None:
        """Others know what may be missing here, so that from now on nothing is that they count on, unless the machine
        dies (`has_all` of the next start).
        """
        for directory in self._online():
            try:
                directory.vouch()
            except OSError as error:
                # Only a promise is not given; whether the disk fails is for those to find out who need it.
                if is_shortage(error):
                    self.note_shortage(directory.path, error)
                logger.warning("%s may have to be caught up after a kill: %s", directory.path, error)

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
                raise KafkaStorageError(f"no log directory can be used: {self.failures}")
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

    # --- now and then ----------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write down recovery points and start offsets of all directories. A failing directory goes offline."""
        write = self.begin_checkpoint()
        write.run()
        self.end_checkpoint(write)

    def begin_checkpoint(self) -> CheckpointWrite:
        """What is to be written down now; whoever runs it, on any thread, hands it to `end_checkpoint`."""
        offsets: dict[str, tuple[dict[TopicPartition, int], dict[TopicPartition, int]]] = {
            directory.path: ({}, {}) for directory in self._online()
        }
        for topic_partition, log in self._logs.items():
            points, starts = offsets[log.path_of_directory]
            points[topic_partition] = log.recovery_point
            if log.log_start_offset > log.segments.first.base_offset:
                starts[topic_partition] = log.log_start_offset
        return CheckpointWrite(
            [
                (self._directories[path], {RECOVERY_POINT_FILE: points, LOG_START_FILE: starts})
                for path, (points, starts) in offsets.items()
            ]
        )

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """High watermarks as they were last written down, of all directories."""
        found: dict[TopicPartition, int] = {}
        for directory in self._online():
            try:
                found.update(directory.read_checkpoint(REPLICATION_FILE))
            except OSError as error:
                self._log_failed(directory.path, error)
        return found

    def begin_high_watermark_checkpoint(
        self, high_watermarks: Mapping[TopicPartition, int]
    ) -> CheckpointWrite:
        """As `begin_checkpoint`, for the high watermarks of the partitions that have other replicas."""
        files: dict[str, dict[TopicPartition, int]] = {directory.path: {} for directory in self._online()}
        for topic_partition, high_watermark in high_watermarks.items():
            log = self._logs.get(topic_partition)
            if log is not None:
                files[log.path_of_directory][topic_partition] = high_watermark
        return CheckpointWrite(
            [(self._directories[path], {REPLICATION_FILE: offsets}) for path, offsets in files.items()]
        )

    def end_checkpoint(self, write: CheckpointWrite) -> None:
        """The checkpoints were written, or could not be: a failing directory goes offline."""
        for path, error in write.errors:
            self._log_failed(path, error, only_if_grave=True)

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

    # --- shortage ----------------------------------------------------------------------------------------------------

    def note_shortage(self, path: str, error: OSError) -> None:
        """A write in this directory was refused for want of room: told once, until `end_room_trial` finds room."""
        directory = self._directories[path]
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
                for one in self._online()
                if one.shortage is not None
            )
            or None
        )

    def begin_room_trial(self) -> RoomTrial | None:
        """What tries the directories that refuse writes, on any thread; None while none does."""
        now = self._clock.monotonic_seconds()
        short = [one for one in self._online() if one.shortage is not None and one.shortage.may_end(now)]
        return RoomTrial(short) if short else None

    def end_room_trial(self, trial: RoomTrial) -> None:
        """Take up writes where there was room."""
        for directory in trial.with_room:
            shortage, directory.shortage = directory.shortage, None
            if shortage is not None:
                now = self._clock.monotonic_seconds()
                logger.warning("%s", shortage.end_line(directory.path, directory.free_bytes(), now))

    # --- failure ---------------------------------------------------------------------------------------------------

    def _log_failed(self, path: str, error: OSError, *, only_if_grave: bool = False) -> None:
        if only_if_grave and is_shortage(error):
            self.note_shortage(path, error)
            return
        self._fail(self._directories[path], error)

    def _fail(self, directory: Volume, error: Exception) -> None:
        if directory.failure is not None:
            return
        is_short = isinstance(error, OSError) and is_shortage(error)
        directory.failure = words_of(error)
        directory.advice = start_advice(error)
        directory.shortage = None
        if not is_short:
            self._vouch_no_more(directory)
        logger.critical(
            "the log directory %s failed and is offline with all its partitions: %s; %s and start the broker again",
            directory.path,
            directory.failure,
            directory.advice,
        )
        why = f"its log directory {directory.path} failed: {directory.failure}"
        for topic_partition, log in list(self._logs.items()):
            if log.path_of_directory == directory.path:
                log.fail(why)
                del self._logs[topic_partition]
                self._barred[topic_partition] = why
        if self._on_offline is not None:
            self._on_offline(directory.path, directory.failure)

    def _vouch_no_more(self, directory: Volume) -> None:
        try:
            directory.vouch_no_more()
        except OSError as error:
            # Whether its logs are whole is for the scan of the next start to find out.
            logger.error("%s cannot be marked as failed: %s", directory.path, error)

    def _unlock(self) -> None:
        for directory in self._directories.values():
            directory.unlock()
