"""Compaction while the broker runs: which log is next, which process works on it, and the swap of what was written.

A round's work happens elsewhere (`cleaning_work`) and only reads closed segments. This module alone swaps segments,
each run in one turn of the event loop. It first checks that the log is still the one that the round began with. So
truncation and deletion need not wait: they end the round, whose files count for nothing.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.removal_bounds import RemovalBounds
from odradek.foundation.clock import Clock
from odradek.foundation.errors import CorruptRecord, KafkaStorageError, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import COMPACTION_WINDOW_BYTES_MIN
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.storage.compaction.candidates import (
    Cleanable,
    choose_dirtiest,
    cleanable,
    first_dirty_offset,
    has_outgrown,
    is_roll_overdue,
    task_for,
)
from odradek.storage.compaction.task import CleanedRun, CleaningSummary, CleaningTask
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.disk_space import is_shortage
from odradek.storage.log import Log
from odradek.storage.segment import Segment

logger = logging.getLogger(__name__)

# A worker without a task for so long is ended.
_IDLE_SECONDS_MAX: Final = 60.0
# A failure that may pass is forgiven so often in a row.
_FAILURES_MAX: Final = 3
# A log whose round failed waits, twice as long each time: a full disk fails every round.
_PAUSE_SECONDS_MIN: Final = 1.0
_PAUSE_SECONDS_MAX: Final = 300.0


class WorkerDied(KafkaStorageError):
    """The process that compacts ended in the middle of a round."""


class CleaningWork(Protocol):
    """One place to work, which does one round at a time."""

    def runs(self, task: CleaningTask, summary: CleaningSummary) -> AsyncGenerator[CleanedRun, None]:
        """Work on a task; `summary` is filled when the iteration ends by itself.

        Raises KafkaStorageError, OSError, CorruptRecord. An iteration that is left early stops the work.
        """
        ...

    async def close(self) -> None:
        """End what is kept for the next round."""
        ...


@dataclass(slots=True)
class _RunningRound:
    log: Log
    segments: set[Segment]
    """Those that are not replaced yet."""
    task: asyncio.Task[None] | None = None
    is_interrupted: bool = False

    @property
    def is_stale(self) -> bool:
        """Whether segments were deleted that the round works on: retention and DeleteRecords continue during it."""
        return not self.segments.issubset(self.log.segments.all)


@dataclass(slots=True)
class _Failures:
    """Of one log, in a row."""

    count: int = 0
    pause_seconds: float = 0.0
    retry_at_seconds: float = 0.0


@dataclass(slots=True)
class CleaningTotals:
    """The sums of all rounds since the start."""

    rounds: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_saved: int = 0
    records_kept: int = 0
    records_removed: int = 0
    map_fill_ratio: float = 0.0
    """Of the last round."""

    def add(self, summary: CleaningSummary) -> None:
        """Count a round that ended well."""
        self.rounds += 1
        self.bytes_read += summary.bytes_read
        self.bytes_written += summary.bytes_written
        self.bytes_saved += max(summary.bytes_before - summary.bytes_written, 0)
        self.records_kept += summary.records_kept
        self.map_fill_ratio = summary.map_fill_ratio
        self.records_removed += summary.records_read - summary.records_kept


class LogCleaner:
    """Compacts the logs of one broker, log.cleaner.threads of them at a time."""

    def __init__(
        self,
        *,
        partitions: HostedPartitions,
        log_manager: LogManager,
        blocking: BlockingWork,
        clock: Clock,
        current_settings: Callable[[], Settings],
        new_work: Callable[[], CleaningWork],
        bounds: RemovalBounds,
    ) -> None:
        self._partitions = partitions
        self._log_manager = log_manager
        self._blocking = blocking
        self._clock = clock
        self._settings = current_settings
        self._new_work = new_work
        self._bounds = bounds
        self._tasks = TaskOwner("cleaner")
        self._idle: list[CleaningWork] = []
        self._idle_since_seconds = 0.0
        self._rounds: dict[TopicPartition, _RunningRound] = {}
        self._failures: dict[TopicPartition, _Failures] = {}
        self._round_ended = asyncio.Event()
        self._checkpoint_lock = asyncio.Lock()
        self._is_checkpoint_due = False
        self.uncleanable: dict[TopicPartition, tuple[Log, str]] = {}
        """Logs that are not compacted any more until a restart, and why."""
        self.totals = CleaningTotals()
        self._looked_at_seconds = clock.monotonic_seconds()
        self.dirty_ratio_max = 0.0
        """The dirty part of the dirtiest log, at the last look."""

    @property
    def seconds_since_look(self) -> float:
        """Since dirty logs were last looked for."""
        return self._clock.monotonic_seconds() - self._looked_at_seconds

    def start(self) -> None:
        """Begin to look for dirty logs."""
        self._log_manager.on_log_changed = self.interrupt
        self._tasks.start(self._run(), name="choose")

    async def stop(self) -> None:
        """End all rounds; what was swapped in stays."""
        self._log_manager.on_log_changed = None
        await self._tasks.close()
        for work in self._idle:
            await work.close()
        self._idle.clear()

    def interrupt(self, log: Log) -> None:
        """The log was truncated, deleted or failed: a round on it stops, and the checkpoint is due."""
        self._is_checkpoint_due = True
        self._round_ended.set()
        found = self._rounds.get(log.topic_partition)
        if found is not None and found.log is log:
            found.is_interrupted = True
            if found.task is not None:
                found.task.cancel()

    @property
    def _backoff_seconds(self) -> float:
        return max(self._settings().log_cleaner_backoff_ms / 1000, 0.001)

    # --- what is next --------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._round_ended.clear()
            has_begun = False
            try:
                if self._is_checkpoint_due:
                    self._is_checkpoint_due = False
                    await self._checkpoint()
                has_begun = await self._begin_rounds()
            except (OSError, OdradekError) as failure:
                logger.error("looking for logs to compact failed and is tried again: %s", failure)
            except Exception:
                # A defect, which may pass: logs that are never compacted again fill the disk.
                logger.exception("looking for logs to compact failed and is tried again")
            self._looked_at_seconds = self._clock.monotonic_seconds()
            if not has_begun:
                await self._release_idle()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._backoff_seconds):
                    await self._round_ended.wait()

    async def _begin_rounds(self) -> bool:
        """Begin as many rounds as there are threads free, the dirtiest log first; whether one began."""
        settings = self._settings()
        if not settings.log_cleaner_enable:
            return False
        found: list[tuple[Partition, Cleanable]] = []
        for partition in self._list_compacted():
            try:
                one = self._cleanable(partition)
            except (OSError, CorruptRecord, KafkaStorageError) as failure:
                self._mark_failed(partition.log, failure)
                continue
            if one is not None:
                found.append((partition, one))
            await asyncio.sleep(0)
        self.dirty_ratio_max = max((one.ratio for _, one in found), default=0.0)
        there = [
            (partition, one)
            for partition, one in found
            if partition.log is one.log and partition.gone is None
        ]
        free = max(settings.log_cleaner_threads - len(self._rounds), 0)
        chosen = choose_dirtiest(there, free)
        for partition, one in chosen:
            begun = self._rounds[partition.topic_partition] = _RunningRound(one.log, set(one.segments))
            begun.task = self._tasks.start(
                self._clean(partition, one, begun), name=str(partition.topic_partition)
            )
        return bool(chosen)

    def _list_compacted(self) -> Iterator[Partition]:
        for partition in list(self._partitions):
            if partition.gone is None and partition.log.config.cleanup_compact and not partition.log.failure:
                yield partition

    def _cleanable(self, partition: Partition) -> Cleanable | None:
        """The part of a log that may be compacted; None while a round is at work on it or it is marked."""
        log = partition.log
        marked = self.uncleanable.get(partition.topic_partition)
        if marked is not None and marked[0] is not log:
            # Another log of that name.
            del self.uncleanable[partition.topic_partition]
            marked = None
        if marked is not None or partition.topic_partition in self._rounds:
            return None
        failures = self._failures.get(partition.topic_partition)
        if failures is not None and self._clock.monotonic_seconds() < failures.retry_at_seconds:
            return None
        now_ms = self._clock.wall_ms()
        if is_roll_overdue(log, now_ms=now_ms) or (partition.is_internal and has_outgrown(log)):
            log.roll()
        # What is not on the device yet must not be the reason to remove what is.
        bound = min(partition.last_stable_offset, log.recovery_point)
        if bound <= first_dirty_offset(log):
            return None
        return cleanable(log, last_stable_offset=bound, now_ms=now_ms)

    # --- one round -----------------------------------------------------------------------------------------------

    async def _clean(self, partition: Partition, found: Cleanable, begun: _RunningRound) -> None:
        log = found.log
        name = log.topic_partition
        is_done = False
        try:
            await self._work_on(partition, found, begun)
            self._failures.pop(name, None)
        except asyncio.CancelledError:
            if not begun.is_interrupted:
                raise
            logger.info("%s: a round of compaction was stopped, since the log has changed", name)
        except (OdradekError, OSError, ValueError) as failure:
            is_over = begun.is_interrupted or begun.is_stale or log.failure is not None
            if is_over or partition.gone is not None:
                logger.info("%s: a round of compaction was stopped: %s", name, failure)
            else:
                self._mark_failed(log, failure)
        except Exception as failure:
            logger.exception("%s: a round of compaction failed", name)
            self._mark_failed(log, failure)
        else:
            is_done = True
        finally:
            if not is_done:
                self._remove_cleaned(partition, log)
            self._rounds.pop(name, None)
            self._round_ended.set()

    def _remove_cleaned(self, partition: Partition, log: Log) -> None:
        """Remove what a round that was given up has written; nothing writes it any more."""
        # Behind a failure a swap may be half done, which the next start completes.
        if partition.log is log and partition.gone is None and log.failure is None:
            with suppress(OdradekError, OSError):
                log.remove_cleaned()

    async def _work_on(self, partition: Partition, found: Cleanable, begun: _RunningRound) -> None:
        log, settings = found.log, self._settings()
        threads = max(settings.log_cleaner_threads, 1)
        # A replica that is added from now on has to see what is there: the swap compares.
        replicas = partition.replica.replicas
        bound = await self._bounds.find_bound(partition)
        task = task_for(
            found,
            removal_bound_offset=bound,
            now_ms=self._clock.wall_ms(),
            map_bytes=settings.log_cleaner_dedupe_buffer_size // threads,
            map_load_factor=settings.log_cleaner_io_buffer_load_factor,
            window_bytes=max(settings.log_cleaner_io_buffer_size // threads, COMPACTION_WINDOW_BYTES_MIN),
            bytes_per_second=settings.log_cleaner_io_max_bytes_per_second / threads,
        )
        by_base = {segment.base_offset: segment for segment in found.segments}
        summary = CleaningSummary()
        work = self._idle.pop() if self._idle else self._new_work()
        try:
            async with aclosing(work.runs(task, summary)) as runs:
                async for run in runs:
                    replaced = [by_base[base] for base in run.replaced]
                    if begun.is_interrupted or begun.is_stale or partition.replica.replicas != replicas:
                        begun.is_interrupted = True
                        raise KafkaStorageError(f"{log.topic_partition} has changed in the middle of a round")
                    log.swap_segments(replaced, run.base_offsets)
                    begun.segments -= set(replaced)
        finally:
            self._idle.append(work)
            self._idle_since_seconds = self._clock.monotonic_seconds()
        if begun.is_interrupted:
            return
        log.offsets.cleaned_offset = max(log.offsets.cleaned_offset, summary.next_dirty_offset)
        await self._checkpoint()
        self.totals.add(summary)
        logger.info(
            "%s: compacted up to %d: %d of %d records stay, %.1f of %.1f MB (%.1f%% saved). "
            "%d keys, %.1f%% of the map, %.1f MB read, %.1f MB written in %.2f + %.2f s",
            log.topic_partition,
            summary.next_dirty_offset,
            summary.records_kept,
            summary.records_read,
            summary.bytes_written / 1e6,
            summary.bytes_before / 1e6,
            100 * (1 - summary.bytes_written / max(summary.bytes_before, 1)),
            summary.map_entries,
            100 * summary.map_fill_ratio,
            summary.bytes_read / 1e6,
            summary.bytes_written / 1e6,
            summary.map_seconds,
            summary.write_seconds,
        )

    def _mark_failed(self, log: Log, failure: Exception) -> None:
        """Mark a log, so that the others continue; what may pass is retried a few times."""
        name = log.topic_partition
        # A log refuses what a full disk refused in an error of its own.
        cause = failure if isinstance(failure, OSError) else failure.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.EIO:
            # As for any other use of the log, its directory goes offline. A mark would hide what a restart may mend.
            log.report_failed_disk("a round of compaction", cause)
            return
        is_full = isinstance(cause, OSError) and is_shortage(cause)
        failures = self._failures.setdefault(name, _Failures())
        failures.count += 1
        if is_full or (isinstance(failure, WorkerDied) and failures.count < _FAILURES_MAX):
            pause_seconds = max(2 * failures.pause_seconds, self._backoff_seconds, _PAUSE_SECONDS_MIN)
            failures.pause_seconds = min(pause_seconds, _PAUSE_SECONDS_MAX)
            failures.retry_at_seconds = self._clock.monotonic_seconds() + failures.pause_seconds
            logger.warning(
                "%s was not compacted, and is tried again in %.0f s: %s",
                name,
                failures.pause_seconds,
                failure,
            )
            return
        del self._failures[name]
        self.uncleanable[name] = (log, str(failure))
        logger.error(
            "%s is not compacted any more until this broker restarts; other logs are: %s", name, failure
        )

    async def _checkpoint(self) -> None:
        async with self._checkpoint_lock:
            job = self._log_manager.begin_cleaner_checkpoint()
            await asyncio.shield(self._blocking.submit(job.run))
            self._log_manager.end_checkpoint(job)

    async def _release_idle(self) -> None:
        """End workers that have had nothing to do for a while."""
        idle_seconds = self._clock.monotonic_seconds() - self._idle_since_seconds
        if self._idle and idle_seconds > _IDLE_SECONDS_MAX:
            released, self._idle = self._idle, []
            for work in released:
                await work.close()
