"""Writes records of one partition of an internal topic: the submissions of one turn of the loop become one batch.

One append is under way at a time, and later submissions go together into the next one. So all commits of a turn share
the cost of an append, and with slow replicas batches grow instead of queues. The records of one submission are never
divided: a batch is written whole or not at all.

When an append fails, every submission behind it fails too, because it may build on what was not written. When the
replicas only take long, the writer calls `on_late` after `late_after_ms`, so that the client gets an answer. The append
continues, and it counts when it succeeds.

An append that fails after its records are in the log may count or not, and a later leader may serve it. State without
it is behind the log then: a member that was removed would be written again, and would have a part of its records. So
`on_unknown` is called first, and has to close the writer. What the log holds is loaded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.broker.coordination.topic_log import EncodedRecord, TopicParts, TransactionalWriter
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
from odradek.foundation.ids import NO_PRODUCER_ID
from odradek.foundation.limits import COORDINATOR_BATCH_BYTES_MAX, COORDINATOR_WAITING_BYTES_MAX
from odradek.foundation.transaction_errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    TransactionCoordinatorFenced,
)
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from odradek.wire.records.control import Marker

logger = logging.getLogger(__name__)

MARKER_BYTES: Final = 78

# What comes after the records are in the log: they stay there.
_UNKNOWN_OUTCOMES: Final = (NotEnoughReplicasAfterAppend, RequestTimedOut)
# What one producer or one transaction coordinator may not write, while all others may.
_REFUSALS: Final = (InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced)

# Of records that belong to no transaction.
_NO_WRITER: Final = TransactionalWriter(NO_PRODUCER_ID, -1)

OnWritten = Callable[[OdradekError | None], None]
OnLate = Callable[[OdradekError], None]


@dataclass(slots=True, eq=False, repr=False)
class _Submission:
    records: Sequence[EncodedRecord]
    size_bytes: int
    on_written: OnWritten
    writer: TransactionalWriter | None = None
    on_late: OnLate | None = None
    late_at: float = 0.0  # the loop's time
    marker: Marker | None = None  # instead of records
    transaction_version: int = 0

    def shares_a_batch_with(self, other: _Submission) -> bool:
        """Whether both may be in one batch: a batch has one producer or none, and a marker is one of its own."""
        return self.marker is None and other.marker is None and self.writer == other.writer


class RecordWriter:
    """The only writer of one partition."""

    def __init__(
        self, parts: TopicParts, partition: int, *, on_unknown: Callable[[OdradekError], None] | None = None
    ) -> None:
        self._on_unknown = on_unknown
        self._topic, self._log, self._clock, compression, late_after_ms = parts
        self._partition = partition
        self._name = parts.name_of(partition)
        self._compression = Compression(compression)
        self._late_after_seconds = late_after_ms / 1000
        self._under_way: list[_Submission] = []
        # Waits until the replicas have the append under way.
        self._waiting_for_replicas: asyncio.Task[int] | None = None
        self._late_timer: asyncio.TimerHandle | None = None
        self._waiting: deque[_Submission] = deque()
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._closed: OdradekError | None = None
        # The failure of the last append: a full disk refuses every append, for hours.
        self._trouble: type[BaseException] | None = None
        self.bytes_written = 0

    def submit(
        self,
        records: Sequence[EncodedRecord],
        on_written: OnWritten,
        *,
        on_late: OnLate | None = None,
        writer: TransactionalWriter | None = None,
    ) -> None:
        """Write `records` in one batch, and call `on_written` later, or at once with an error.

        `on_late` may be called once before that. With `writer` they belong to its open transaction.
        """
        size_bytes = sum(len(key) + len(value or b"") + 24 for key, value in records)
        submission = _Submission(records, size_bytes, on_written, writer=writer)
        if on_late is not None:
            submission.on_late = on_late
            submission.late_at = asyncio.get_running_loop().time() + self._late_after_seconds
        self._submit(submission)

    def submit_marker(self, marker: Marker, on_written: OnWritten, *, transaction_version: int) -> None:
        """Write the end of a transaction after all that was submitted before; otherwise as `submit`."""
        self._submit(
            _Submission((), MARKER_BYTES, on_written, marker=marker, transaction_version=transaction_version)
        )

    def _submit(self, submission: _Submission) -> None:
        if self._closed is not None:
            submission.on_written(self._closed)
            return
        if self._waiting_bytes + submission.size_bytes > COORDINATOR_WAITING_BYTES_MAX:
            full = f"too many {self._topic.subject} changes wait to be written; try again"
            submission.on_written(CoordinatorNotAvailable(full))
            return
        self._waiting.append(submission)
        self._waiting_bytes += submission.size_bytes
        self._schedule()

    def close(self, error: OdradekError) -> None:
        """Fail every waiting or later submission with `error`. An append under way continues."""
        self._closed = error
        if self._late_timer is not None:
            self._late_timer.cancel()
        self._notify(self._take_all(), error)

    async def end(self) -> None:
        """After `close`: end the wait for the append under way. It is in the log, and may count or not."""
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
        try:
            outcome = (
                self._append_marker(batch[0]) if batch[0].marker is not None else self._append_records(batch)
            )
        except Exception as error:
            self._end_append(batch, error)
            return
        if isinstance(outcome, int):
            self._end_append(batch, None)
        else:
            self._under_way = batch
            if self._late_timer is None:
                self._watch()
            task = asyncio.get_running_loop().create_task(
                _value_of(outcome), name=f"offsets/append-{self._partition}"
            )
            self._waiting_for_replicas = task
            task.add_done_callback(lambda done: self._end_wait(batch, done))

    def _append_records(self, batch: list[_Submission]) -> int | Awaitable[int]:
        now_ms = self._clock.wall_ms()
        records = [(now_ms, key, value) for submission in batch for key, value in submission.records]
        if not records:
            return 0
        writer = batch[0].writer
        producer_id, producer_epoch, token = writer or _NO_WRITER
        data = build_batch(
            records,
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=writer is not None,
        )
        self.bytes_written += len(data)
        return self._log.append(self._partition, data, token=token)

    def _append_marker(self, submission: _Submission) -> int | Awaitable[int]:
        assert submission.marker is not None, "only called for markers"
        return self._log.append_marker(
            self._partition, submission.marker, transaction_version=submission.transaction_version
        )

    def _end_wait(self, batch: list[_Submission], done: asyncio.Task[int]) -> None:
        self._waiting_for_replicas = None
        if done.cancelled():
            # The broker stops: no callback may begin another append, because no task would end it.
            stopping = CoordinatorNotAvailable("the broker is stopping; find the coordinator again")
            self.close(stopping)
            self._end_append(batch, stopping)
        else:
            self._end_append(batch, done.exception())

    def _take_batch(self) -> list[_Submission]:
        batch: list[_Submission] = []
        size_bytes = 0
        while self._waiting:
            submission = self._waiting[0]
            if batch and (
                size_bytes + submission.size_bytes > COORDINATOR_BATCH_BYTES_MAX
                or not batch[0].shares_a_batch_with(submission)
            ):
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

    def _end_append(self, batch: list[_Submission], error: BaseException | None) -> None:
        self._is_scheduled = False
        self._under_way = []
        if error is None:
            if self._trouble is not None:
                self._trouble = None
                logger.info("%s, is written again", self._name)
            self._notify(batch, None)
        elif isinstance(error, _REFUSALS):
            # The log is well, and nothing that waits builds on this.
            self._notify(batch, error)
        else:
            level = logging.DEBUG if self._trouble is type(error) else logging.WARNING
            self._trouble = type(error)
            logger.log(level, "a write to %s, failed: %s", self._name, error)
            failed, client_error = batch + self._take_all(), self._client_error(error)
            if isinstance(error, _UNKNOWN_OUTCOMES) and self._on_unknown is not None:
                self._on_unknown(client_error)
            self._notify(failed, client_error)
        if self._waiting:
            self._schedule()

    def _watch(self) -> None:
        """Call `on_late` of submissions that have waited too long, and set the timer for the next one."""
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
                    f"the replicas of {self._name}, have not taken the commit "
                    f"within {self._topic.late_setting}; try again"
                )
            )

    def _notify(self, submissions: list[_Submission], error: OdradekError | None) -> None:
        for submission in submissions:
            try:
                submission.on_written(error)
            except Exception:
                # A bug of one submission must not keep the answers of all others in this batch.
                logger.exception("a %s failed to take note of its write", self._topic.subject)

    def _client_error(self, error: BaseException) -> OdradekError:
        """The error for clients when the topic cannot be written. Kafka maps the errors so."""
        subject = self._topic.subject
        match error:
            case (
                UnknownTopicOrPartition()
                | NotEnoughReplicas()
                | NotEnoughReplicasAfterAppend()
                | RequestTimedOut()
            ):
                return CoordinatorNotAvailable(
                    f"the {subject}'s log cannot be written at the moment: {error}"
                )
            case NotLeaderOrFollower() | KafkaStorageError():
                return NotCoordinator(f"the {subject}'s log is not to be written here: {error}")
            case RecordTooLarge() | RecordListTooLarge():
                return UnknownServerError(f"the {subject}'s state is larger than its log allows: {error}")
            case OdradekError():
                return error
        logger.error("an unexpected failure while writing %s", self._topic.title, exc_info=error)
        return UnknownServerError(f"the {subject}'s log could not be written; the broker's log says why")


async def _value_of(outcome: Awaitable[int]) -> int:
    return await outcome
