"""Writes records of one partition of the offsets topic: whatever comes within one turn of the loop is one
batch.

One append is under way at a time; what comes meanwhile waits and goes together into the next. So the cost of
an append is shared by all commits of a turn, and with slow replicas batches grow instead of queues. Records
of one submission are never parted: a batch is the unit that is written whole or not at all.

When an append fails, all that waits behind it fails with it: it may build on what was not written. When the
replicas only take long, whoever gave `on_late` hears of it after `offsets.commit.timeout.ms` and may answer his
client; the append goes on, and what it brings counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from odradek.foundation.clock import Clock
from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OdradekError,
    RecordListTooLarge,
    RecordTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from odradek.foundation.limits import GROUP_RECORD_BATCH_BYTES_MAX, GROUP_RECORDS_WAITING_BYTES_MAX
from odradek.groups.offsets_log import OffsetsLog
from odradek.groups.schema import Encoded
from odradek.records.builder import build_batch
from odradek.records.compression import Compression

logger = logging.getLogger(__name__)

OnWritten = Callable[[OdradekError | None], None]


OnLate = Callable[[OdradekError], None]


class _Submission:
    __slots__ = ("late_at", "on_late", "on_written", "records", "size_bytes")

    def __init__(
        self,
        records: Sequence[Encoded],
        size_bytes: int,
        on_written: OnWritten,
        on_late: OnLate | None = None,
        late_at: float = 0.0,
    ) -> None:
        self.records = records
        self.size_bytes = size_bytes
        self.on_written = on_written
        self.on_late = on_late
        self.late_at = late_at  # the loop's time


class RecordWriter:
    """The only writer of one partition."""

    def __init__(
        self,
        log: OffsetsLog,
        partition: int,
        clock: Clock,
        *,
        compression: int = Compression.NONE,
        late_after_ms: int = 5000,
    ) -> None:
        self._log = log
        self._partition = partition
        self._clock = clock
        self._compression = Compression(compression)
        self._late_after_seconds = late_after_ms / 1000
        self._under_way: list[_Submission] = []
        # What waits until the replicas have what is under way.
        self._waiting_for_replicas: asyncio.Task[int] | None = None
        self._late_timer: asyncio.TimerHandle | None = None
        self._waiting: deque[_Submission] = deque()
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._closed: OdradekError | None = None
        # What the last append failed with: a full disk refuses all of them, for hours.
        self._trouble: type[BaseException] | None = None
        self._rewrite: tuple[Callable[[], Sequence[Encoded]], OnWritten] | None = None
        self.bytes_written = 0

    def submit(
        self, records: Sequence[Encoded], on_written: OnWritten, *, on_late: OnLate | None = None
    ) -> None:
        """Write `records` in one batch; `on_written` is called later, never from here unless it must fail
        at once. `on_late` may be called before it, once.
        """
        size_bytes = sum(len(key) + len(value or b"") + 24 for key, value in records)
        if self._closed is not None:
            on_written(self._closed)
            return
        if self._waiting_bytes + size_bytes > GROUP_RECORDS_WAITING_BYTES_MAX:
            on_written(CoordinatorNotAvailable("too many group changes wait to be written; try again"))
            return
        submission = _Submission(records, size_bytes, on_written)
        if on_late is not None:
            submission.on_late = on_late
            submission.late_at = asyncio.get_running_loop().time() + self._late_after_seconds
        self._waiting.append(submission)
        self._waiting_bytes += size_bytes
        self._schedule()

    def rewrite(self, produce: Callable[[], Sequence[Encoded]], on_written: OnWritten) -> None:
        """Write records that repeat what is written already, one such call at a time.

        `produce` is called when nothing is under way, and its records stand before all that waits: so they
        can never hide a newer record of the same key.
        """
        if self._closed is not None:
            on_written(self._closed)
            return
        assert self._rewrite is None, "one rewrite at a time"
        self._rewrite = (produce, on_written)
        self._schedule()

    def close(self, error: OdradekError) -> None:
        """Fail what waits, and all that comes, with `error`. An append under way still ends as it will."""
        self._closed = error
        if self._late_timer is not None:
            self._late_timer.cancel()
        if self._rewrite is not None:
            on_written = self._rewrite[1]
            self._rewrite = None
            on_written(error)
        self._tell(self._take_all(), error)

    async def end(self) -> None:
        """After `close`: wait no more for the append under way. It is in the log, and may count or not."""
        task = self._waiting_for_replicas
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._append)

    def _append(self) -> None:
        batch = self._take_batch()
        if not batch:
            self._is_scheduled = False
            return
        now_ms = self._clock.wall_ms()
        records = [(now_ms, key, value) for submission in batch for key, value in submission.records]
        if not records:
            self._appended(batch, None)
            return
        data = build_batch(records, compression=self._compression)
        self.bytes_written += len(data)
        try:
            outcome = self._log.append(self._partition, data)
        except Exception as error:
            self._appended(batch, error)
            return
        if isinstance(outcome, int):
            self._appended(batch, None)
        else:
            self._under_way = batch
            if self._late_timer is None:
                self._watch()
            task = asyncio.get_running_loop().create_task(
                _value_of(outcome), name=f"offsets/append-{self._partition}"
            )
            self._waiting_for_replicas = task
            task.add_done_callback(lambda done: self._ended(batch, done))

    def _ended(self, batch: list[_Submission], done: asyncio.Task[int]) -> None:
        self._waiting_for_replicas = None
        if done.cancelled():
            # The broker ends: what those who are told do next must not begin another append, which nobody would end.
            stopping = CoordinatorNotAvailable("the broker is stopping; find the coordinator again")
            self.close(stopping)
            self._appended(batch, stopping)
        else:
            self._appended(batch, done.exception())

    def _take_batch(self) -> list[_Submission]:
        batch: list[_Submission] = []
        if self._rewrite is not None:
            produce, on_written = self._rewrite
            self._rewrite = None
            return [_Submission(produce(), 0, on_written)]
        size_bytes = 0
        while self._waiting:
            submission = self._waiting[0]
            if batch and size_bytes + submission.size_bytes > GROUP_RECORD_BATCH_BYTES_MAX:
                break
            size_bytes += submission.size_bytes
            batch.append(self._waiting.popleft())
        self._waiting_bytes -= size_bytes
        return batch

    def _take_all(self) -> list[_Submission]:
        waiting = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        return waiting

    def _appended(self, batch: list[_Submission], error: BaseException | None) -> None:
        self._is_scheduled = False
        self._under_way = []
        if error is None:
            if self._trouble is not None:
                self._trouble = None
                logger.info("the offsets topic, partition %d, is written again", self._partition)
            self._tell(batch, None)
        else:
            level = logging.DEBUG if self._trouble is type(error) else logging.WARNING
            self._trouble = type(error)
            logger.log(
                level, "a write to the offsets topic, partition %d, failed: %s", self._partition, error
            )
            self._tell(batch + self._take_all(), client_error(error))
        if self._waiting or self._rewrite is not None:
            self._schedule()

    def _watch(self) -> None:
        """Tell those who have waited too long; look again when the next of them will have, if any waits."""
        self._late_timer = None
        loop = asyncio.get_running_loop()
        for submission in (*self._under_way, *self._waiting):
            on_late = submission.on_late
            if on_late is None:
                continue
            if submission.late_at > loop.time():
                self._late_timer = loop.call_at(submission.late_at, self._watch)
                return
            submission.on_late = None
            on_late(
                CoordinatorNotAvailable(
                    f"the replicas of the offsets topic, partition {self._partition}, have not taken the commit "
                    f"within offsets.commit.timeout.ms; try again"
                )
            )

    def _tell(self, submissions: list[_Submission], error: OdradekError | None) -> None:
        for submission in submissions:
            try:
                submission.on_written(error)
            except Exception:
                # One group's bug must not keep the answers of all the others in this batch.
                logger.exception("a group failed to take note of its write")


async def _value_of(outcome: Awaitable[int]) -> int:
    return await outcome


def client_error(error: BaseException) -> OdradekError:
    """What a group's client is told when the offsets topic could not be written, as Kafka maps it."""
    match error:
        case (
            UnknownTopicOrPartition()
            | NotEnoughReplicas()
            | NotEnoughReplicasAfterAppend()
            | RequestTimedOut()
        ):
            return CoordinatorNotAvailable(f"the group's log cannot be written at the moment: {error}")
        case NotLeaderOrFollower() | KafkaStorageError():
            return NotCoordinator(f"the group's log is not to be written here: {error}")
        case RecordTooLarge() | RecordListTooLarge():
            return UnknownServerError(f"the group's state is larger than its log allows: {error}")
        case OdradekError():
            return error
    logger.error("an unexpected failure while writing the offsets topic", exc_info=error)
    return UnknownServerError("the group's log could not be written; the broker's log tells why")
