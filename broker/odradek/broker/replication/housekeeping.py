"""The periodic duties of a broker for its logs.

They are retention, flushes, checkpoints, the expiry of producers and the removal of files. After a full disk they check
for space and open what was offline.

Work that waits for a device runs in the blocking threads. Work that changes a log runs on the event loop, with other
work between its steps. A duty that fails is logged and repeated at its next time. A full or broken disk shows itself in
appends too, and must not end the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from odradek.broker.replication.blocking import BlockingWork, Result
from odradek.broker.replication.flusher import Flusher
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.retention_policy import RetentionPolicy
from odradek.foundation.clock import Clock
from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.limits import FLUSH_THREADS_MAX
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.turn_limits import LOGS_LOOKED_AT_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.storage.directories.log_manager import LogManager

logger = logging.getLogger(__name__)

_FLUSH_ROUND_SECONDS_MAX: Final = 1.0
_REMOVAL_ROUND_SECONDS: Final = 1.0
_SPACE_ROUND_SECONDS: Final = 1.0
# Between two attempts to open what a full disk keeps offline: at first, and at most.
_RETRY_SECONDS_MIN: Final = 1.0
_RETRY_SECONDS_MAX: Final = 30.0


class Housekeeping:
    """The periodic duties, each a task of its own."""

    def __init__(
        self,
        *,
        partitions: HostedPartitions,
        log_manager: LogManager,
        blocking: BlockingWork,
        flusher: Flusher,
        clock: Clock,
        current_settings: Callable[[], Settings],
        retention_policy: RetentionPolicy | None = None,
    ) -> None:
        self._partitions = partitions
        self._log_manager = log_manager
        self._blocking = blocking
        self._flusher = flusher
        self._clock = clock
        self._settings = current_settings
        self._retention_policy = retention_policy
        self._retry_seconds = _RETRY_SECONDS_MIN
        self._tasks = TaskOwner("housekeeping")
        # Jobs in threads, at most one for each duty; a job continues when its duty is cancelled.
        self._under_way: set[asyncio.Future[Any]] = set()

    def start(self) -> None:
        """Begin; the first round of most duties comes after log.initial.task.delay.ms."""
        settings = self._settings
        duties: tuple[tuple[str, Callable[[], Awaitable[None]], Callable[[], float]], ...] = (
            ("retention", self.apply_retention, lambda: settings().log_retention_check_interval_ms / 1000),
            ("flush", self.flush_due, self._flush_round_seconds),
            (
                "checkpoint",
                self.checkpoint,
                lambda: settings().log_flush_offset_checkpoint_interval_ms / 1000,
            ),
            (
                "producer expiration",
                self.expire_producers,
                lambda: settings().producer_id_expiration_check_interval_ms / 1000,
            ),
            (
                "high watermarks",
                self.checkpoint_high_watermarks,
                lambda: settings().replica_high_watermark_checkpoint_interval_ms / 1000,
            ),
            ("removal", self.remove_due, lambda: _REMOVAL_ROUND_SECONDS),
            ("room", self.try_for_space, lambda: _SPACE_ROUND_SECONDS),
            ("second try", self.retry_offline, lambda: self._retry_seconds),
        )
        for name, duty, seconds in duties:
            self._tasks.start(self._repeat(name, duty, seconds), name=name)

    def _flush_round_seconds(self) -> float:
        return min(_FLUSH_ROUND_SECONDS_MAX, self._settings().effective_flush_ms / 2000)

    async def stop(self) -> None:
        """End the duties and wait for their jobs in threads: nothing writes to a log after this."""
        await self._tasks.close()
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._flusher.drain()
        await self.checkpoint_high_watermarks()

    async def _repeat(
        self, name: str, duty: Callable[[], Awaitable[None]], seconds: Callable[[], float]
    ) -> None:
        initial = self._settings().log_initial_task_delay_ms / 1000
        await asyncio.sleep(min(initial, seconds()))
        while True:
            try:
                await duty()
            except (OSError, KafkaStorageError) as failure:
                logger.error("%s failed and is tried again: %s", name, failure)
            except Exception:
                # A defect, which may pass: a broker that never applies retention again fills its disk.
                logger.exception("%s failed and is tried again", name)
            await asyncio.sleep(max(0.001, seconds()))

    async def apply_retention(self) -> None:
        """Delete what is past retention.ms and retention.bytes, or what the policy chooses, log by log."""
        for partition in self._partitions:
            if partition.gone is None:
                try:
                    if self._retention_policy is None:
                        partition.apply_retention()
                    else:
                        await self._apply_policy(partition, self._retention_policy)
                except (OSError, KafkaStorageError) as failure:
                    logger.error("retention of %s failed: %s", partition.topic_partition, failure)
                except Exception:
                    # A defect in one log must not let all after it grow.
                    logger.exception("retention of %s failed", partition.topic_partition)
                await asyncio.sleep(0)

    async def _apply_policy(self, partition: Partition, policy: RetentionPolicy) -> None:
        view = partition.log.view_retention(partition.high_watermark)
        # Without segments to choose from, what DeleteRecords gave up may still go.
        chosen = partition.log.log_start_offset if view is None else await policy.choose(view)
        if partition.gone is None:
            partition.apply_retention(chosen)

    async def flush_due(self) -> None:
        """Flush the logs whose flush.ms has passed, or that have closed a segment; a few in parallel."""
        due = self._log_manager.flush_due(self._clock.wall_ms())
        if not due:
            return
        left = iter(due)

        async def flush_some() -> None:
            for log in left:
                if log.failure is None:
                    try:
                        await self._flusher.flush(log)
                    except KafkaStorageError as failure:
                        logger.error("%s was not flushed: %s", log.topic_partition, failure)

        await asyncio.gather(*(flush_some() for _ in range(min(FLUSH_THREADS_MAX, len(due)))))

    async def checkpoint(self) -> None:
        """Write recovery points and log start offsets."""
        write = self._log_manager.begin_checkpoint()
        await self._in_thread(write.run)
        self._log_manager.end_checkpoint(write)

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks of partitions that have other replicas. With one replica all is committed."""
        found: list[tuple[Partition, int]] = []
        turn = Turn(LOGS_LOOKED_AT_PER_TURN_MAX)
        for partition in self._partitions:
            if turn.is_over():
                await turn.next()
            if partition.gone is None and partition.has_followers:
                found.append((partition, partition.high_watermark))
        # A topic of the same name may be there since, and has nothing committed.
        write = self._log_manager.begin_high_watermark_checkpoint(
            {one.topic_partition: offset for one, offset in found if one.gone is None}
        )
        await self._in_thread(write.run)
        self._log_manager.end_checkpoint(write)

    async def expire_producers(self) -> None:
        """Forget producers that were silent for producer.id.expiration.ms."""
        now_ms = self._clock.wall_ms()
        turn = Turn(LOGS_LOOKED_AT_PER_TURN_MAX)
        for partition in self._partitions:
            if turn.is_over():
                await turn.next()
            partition.log.producers.expire(now_ms=now_ms)

    async def remove_due(self) -> None:
        """Remove deleted files whose delay is over."""
        remove = self._log_manager.removal_due()
        if remove is not None:
            await self._in_thread(remove)

    async def try_for_space(self) -> None:
        """Find out whether a log directory that was full takes writes again."""
        trial = self._log_manager.directories.begin_space_check()
        if trial is not None:
            await self._in_thread(trial.run)
            self._log_manager.directories.end_space_check(trial)

    async def retry_offline(self) -> None:
        """Open the partitions that a full disk keeps offline, less and less often while it stays full."""
        pause_seconds = _RETRY_SECONDS_MIN
        if self._partitions.retry_offline():
            pause_seconds = min(2 * self._retry_seconds, _RETRY_SECONDS_MAX)
        self._retry_seconds = pause_seconds

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        future = self._blocking.submit(work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        # Shielded: a duty that is cancelled leaves its thread running, which `stop` then waits for.
        return await asyncio.shield(future)
