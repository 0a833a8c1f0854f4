"""Logs that move between this broker's log directories while they are written and read (KIP-113).

Each move is a task. It copies a piece of the log in a thread, waits as long as the throttle says, and copies the next.
The last bytes are copied in one turn of the event loop, and the log continues in its copy. Leader, followers, producers
and readers notice nothing: the log is the same object. A flush that is under way then is waited for by the turn itself.

A move that fails leaves the log where it is. One that a stop interrupts begins again at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.flusher import Flusher
from odradek.broker.replication.throttles import Throttle
from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.storage.directories.log_directory import LogDirectory
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.disk_space import error_text
from odradek.storage.log import Log
from odradek.storage.log_copy import LogCopy

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """One request for a move."""

    path: str


class FutureReplica(NamedTuple):
    """The copy of a replica in the log directory to which it moves; empty while the move waits for others."""

    topic_partition: TopicPartition
    path: str
    size_bytes: int
    lag_offsets: int


class LogMoves:
    """The moves of one broker, as many at a time as it has log directories, or as its settings say."""

    def __init__(
        self,
        *,
        log_manager: LogManager,
        blocking: BlockingWork,
        flusher: Flusher,
        clock: Clock,
        current_settings: Callable[[], Settings],
    ) -> None:
        self._log_manager = log_manager
        self._mover = log_manager.moves
        self._blocking = blocking
        self._flusher = flusher
        self._settings = current_settings
        self._tasks = TaskOwner("log moves")
        # Where each log is to be, those that wait first come, first served. Bounded by the logs that there are.
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._running: set[TopicPartition] = set()
        self._throttle = Throttle(
            lambda: current_settings().replica_alter_log_dirs_io_max_bytes_per_second,
            now=clock.monotonic_seconds,
        )

    def start(self) -> None:
        """Begin again what the last stop interrupted."""
        unfinished, self._mover.unfinished = self._mover.unfinished, {}
        for topic_partition, path in unfinished.items():
            if self._log_manager.get(topic_partition) is not None:
                self.move(topic_partition, path)

    async def stop(self) -> None:
        """End the moves; the next start begins them again."""
        self._wanted.clear()
        await self._tasks.close()

    def target_of(self, topic_partition: TopicPartition) -> str | None:
        """The log directory to which the log moves, or will; None when it stays."""
        wanted = self._wanted.get(topic_partition)
        return None if wanted is None else wanted.path

    def future_of(self, log: Log) -> FutureReplica | None:
        """The copy of a log that moves, or will: Kafka makes it as soon as it is asked. None for one that stays."""
        wanted = self._wanted.get(log.topic_partition)
        if wanted is None or wanted.path == log.parent_directory:
            return None
        copy = self._mover.under_way.get(log.topic_partition)
        if copy is None or copy.parent_directory != wanted.path:
            return FutureReplica(
                log.topic_partition, wanted.path, 0, log.log_end_offset - log.log_start_offset
            )
        return FutureReplica(log.topic_partition, wanted.path, copy.size_bytes, copy.lag_offsets)

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Have the log in the log directory `path`, one of this broker's that has not failed.

        A move to another directory is given up, and one to where the log is ends there.
        """
        log = self._log_manager.get(topic_partition)
        if log is None or self.target_of(topic_partition) == path:
            return
        self._mover.cancel(topic_partition)
        self._wanted.pop(topic_partition, None)
        if log.parent_directory != path:
            self._wanted[topic_partition] = _Wanted(path)
            self._begin_next()

    @property
    def _together_max(self) -> int:
        return self._settings().num_replica_alter_log_dirs_threads or len(self._log_manager.directories.paths)

    def _begin_next(self) -> None:
        for topic_partition in self._wanted:
            if len(self._running) >= self._together_max:
                return
            if topic_partition not in self._running:
                self._running.add(topic_partition)
                self._tasks.start(self._run(topic_partition), name=str(topic_partition))

    async def _run(self, topic_partition: TopicPartition) -> None:
        try:
            while (wanted := self._wanted.get(topic_partition)) is not None:
                try:
                    await self._move(topic_partition, wanted.path)
                except (OSError, KafkaStorageError) as error:
                    logger.error("%s could not move to %s: %s", topic_partition, wanted.path, error)
                finally:
                    # The same may have been asked for again since.
                    if self._wanted.get(topic_partition) is wanted:
                        del self._wanted[topic_partition]
        finally:
            self._running.discard(topic_partition)
            self._begin_next()

    async def _move(self, topic_partition: TopicPartition, path: str) -> None:
        directory = self._log_manager.directories.by_path.get(path)
        log = self._log_manager.get(topic_partition)
        if directory is None or directory.failure is not None or log is None or log.parent_directory == path:
            return
        logger.info("%s moves from %s to %s", topic_partition, log.parent_directory, path)
        copy = self._mover.begin(topic_partition, path)
        old: str | None = None
        try:
            await self._blocking.submit(partial(self._mover.mark, copy))
            old = await self._copy(copy, directory)
        except OSError as error:
            if log.failure is None:
                self._log_manager.directories.report_error(path, error)
            raise
        finally:
            if old is None:
                self._mover.cancel(topic_partition)
                # After a stop the next start removes it, and begins again.
                if not self._tasks.is_closed:
                    await self._blocking.submit(partial(self._mover.discard, copy.directory))
        if old is not None:
            logger.info("%s has moved from %s to %s", topic_partition, old, path)
            await self._settle(copy, old)

    async def _settle(self, copy: LogCopy, old: str) -> None:
        """Remove what the log left behind, once the device has the new names and offsets."""
        topic_partition = copy.log.topic_partition
        try:
            await self._blocking.submit(partial(self._mover.settle, copy))
            write = self._log_manager.begin_checkpoint()
            await self._blocking.submit(write.run)
            self._log_manager.end_checkpoint(write)
            self._mover.put_away(old, topic_partition)
        except OSError as error:
            logger.error(
                "what %s left in %s is removed at the next start: %s", topic_partition, old, error_text(error)
            )

    async def _copy(self, copy: LogCopy, directory: LogDirectory) -> str | None:
        """Copy all, and let the log continue there. Where it was; None when that is wanted no more."""
        while not copy.is_cancelled and copy.log.failure is None and directory.failure is None:
            piece = copy.next_piece()
            if piece is None:
                return self._mover.finish(copy, must_sync=self._flusher.is_at_work(copy.log))
            error: KafkaStorageError | None = None
            try:
                await self._blocking.submit(piece.run)
            except KafkaStorageError as failure:
                error = failure
            copy.end_piece(piece, error)
            self._throttle.record(piece.size_bytes)
            # Not in one sleep: the throttle may be lifted, or the move given up.
            while not copy.is_cancelled and self._throttle.holds_back():
                seconds = self._throttle.pause_seconds()
                await asyncio.sleep(seconds)
        return None
