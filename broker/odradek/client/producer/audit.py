"""A producer's part in the audit of its topics: it counts what brokers acknowledged, and publishes that with a promise.

    batch acknowledged → Ledger → reports every interval, or in the data's own transaction → the audit topic

Reports travel through a small producer of their own. Those of a transaction are records of that transaction, so that
counts are there exactly when their records are. A heartbeat follows the counts that it covers, in the same partition.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Protocol

from odradek.client.admin.topics import TopicAdmin
from odradek.client.audit.counts import Counts
from odradek.client.audit.ledger import Ledger, WindowKey
from odradek.client.audit.reports import AUDIT_TOPIC, CountsReport, SessionReport
from odradek.client.client import Client
from odradek.client.errors import ClientClosed
from odradek.client.producer.batches import PendingBatch
from odradek.client.producer.partitioners import partition_for_key
from odradek.client.producer.requests import BatchOutcome
from odradek.foundation.client_limits import AUDIT_CLOSE_SECONDS_MAX, AUDIT_WINDOWS_MAX
from odradek.foundation.errors import InvalidRequest, OdradekError, TopicAlreadyExists
from odradek.foundation.tasks import TaskOwner
from odradek.wire.records.batch import BatchView
from odradek.wire.records.record import records

logger = logging.getLogger(__name__)

_TOPIC_CONFIGS = {"cleanup.policy": "compact,delete", "retention.ms": str(30 * 24 * 3_600_000)}


class Sending(Protocol):
    """The part of a producer that the audit needs."""

    @property
    def serials(self) -> tuple[int, int | None]: ...

    @property
    def is_transactional(self) -> bool: ...

    @property
    def has_open_transaction(self) -> bool: ...

    async def start(self) -> None: ...

    async def send(self, topic: str, value: bytes, *, key: bytes, partition: int) -> object: ...

    async def flush(self) -> None: ...

    async def close(self, *, is_flushing: bool) -> None: ...


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Audit:
    """`Producer(client, audit=Audit(["orders"]))` publishes what it has written to `orders`, and to what it sends to.

    `topics` are those that readers wait for even while nothing is sent. Counts are by the records' timestamps, in
    windows of `window_ms`, which all producers of a topic share. Heartbeats follow each other by `interval_ms`; after
    `lease_ms` without one the session is taken for dead.

    `low_time` answers the lowest time in milliseconds that records sent from now on may have. Without it that is the
    present less `lateness_ms`, which is right for records that `send` stamps. A record that is older counts as late.
    An object belongs to one producer. Memory is bounded by AUDIT_WINDOWS_MAX.
    """

    def __init__(
        self,
        topics: Iterable[str] = (),
        *,
        producer: str | None = None,
        window_ms: int = 60_000,
        interval_ms: int = 10_000,
        lease_ms: int = 60_000,
        lateness_ms: int = 0,
        low_time: Callable[[], int] | None = None,
        audit_topic: str = AUDIT_TOPIC,
    ) -> None:
        if window_ms <= 0 or interval_ms <= 0 or lease_ms < interval_ms or lateness_ms < 0:
            raise InvalidRequest(
                f"window_ms {window_ms} and interval_ms {interval_ms} have to be above 0, lease_ms {lease_ms} at least "
                f"the interval, and lateness_ms {lateness_ms} at least 0"
            )
        self.name = producer or f"{socket.gethostname()}-{os.getpid()}"
        self.session = str(uuid.uuid4())
        self.audit_topic = audit_topic
        self.refused: set[str] = set()
        """Topics whose records the broker stamps (LogAppendTime): their windows are not the producer's to say."""
        self._topics = dict.fromkeys(topics)
        self._window_ms = window_ms
        self._interval_ms = interval_ms
        self._lease_ms = lease_ms
        self._low_time = low_time or (lambda: clock_ms() - lateness_ms)
        self._ledger = Ledger(window_ms=window_ms, windows_max=AUDIT_WINDOWS_MAX)
        self._sequence = 0
        self._partition = 0
        self._tasks = TaskOwner("audit")
        self._publishing = asyncio.Lock()
        self._producer: Sending | None = None
        self._reporter: Sending | None = None
        self._client: Client | None = None

    # --- what the producer calls ----------------------------------------------------------------------------------

    def attach(self, client: Client, producer: Sending, reporter: Sending) -> None:
        """Become the audit of `producer`, with `reporter` to write what belongs to no transaction."""
        if self._client is not None:
            raise InvalidRequest("an Audit belongs to one producer: make another one")
        self._client, self._producer, self._reporter = client, producer, reporter

    async def start(self) -> None:
        """Make the audit topic where there is none, and begin the session. Raises what the broker says."""
        assert self._client is not None and self._reporter is not None
        client = self._client
        if self.audit_topic not in (await client.with_retries(lambda: client.refresh(None))).topics:
            try:
                await TopicAdmin(client).create(self.audit_topic, partitions=4, configs=_TOPIC_CONFIGS)
            except TopicAlreadyExists:
                logger.debug("another producer made %s", self.audit_topic)
        topic = (await client.topics((self.audit_topic,))).topic(self.audit_topic)
        self._partition = partition_for_key(self.session.encode(), len(topic.partitions))
        await self._reporter.start()
        self._ledger.ripen(self._low_time())
        await self.publish()
        self._tasks.start(self._run(), name="reports")

    async def close(self) -> None:
        """Publish the last counts and end the session. A failure is logged: the session's lease will run out."""
        if self._reporter is None or self._client is None:
            return
        await self._tasks.close()
        try:
            async with asyncio.timeout(AUDIT_CLOSE_SECONDS_MAX):
                await self.publish(is_closing=True)
        except (OdradekError, TimeoutError) as failure:
            logger.warning("session %s of the audit ends without its last counts: %s", self.session, failure)
        finally:
            reporter, self._reporter = self._reporter, None
            await reporter.close(is_flushing=False)

    def count_written(self, batch: PendingBatch, outcome: BatchOutcome) -> None:
        """Count the records of an acknowledged batch."""
        key = batch.topic_partition
        if key.topic == self.audit_topic or key.topic in self.refused:
            return
        if outcome.log_append_time_ms >= 0:
            self.refused.add(key.topic)
            logger.error(
                "topic %s has LogAppendTime, so its producer cannot count its windows; set CreateTime",
                key.topic,
            )
            return
        assert batch.data is not None and self._producer is not None
        self._topics.setdefault(key.topic)
        is_pending = self._producer.is_transactional
        self._ledger.add(
            key, records(BatchView(batch.data)), base_offset=outcome.base_offset, is_pending=is_pending
        )

    async def write_transaction(self) -> None:
        """Send what the open transaction changes, as records of it. Raises as `Producer.send`."""
        assert self._producer is not None
        for window, part, counts in self._ledger.with_pending():
            await self._send(self._producer, self._report(window, part, counts))

    def commit_counts(self) -> None:
        """The open transaction was committed: nothing that was sent is left to count."""
        self._ledger.commit()

    def discard_counts(self) -> None:
        self._ledger.discard()

    # --- reports --------------------------------------------------------------------------------------------------

    async def publish(self, *, is_closing: bool = False) -> None:
        """Write what is due, then a heartbeat. It happens by itself; call it where a reader waits for it.

        Raises why it cannot be written; counts stay due then. Raises ClientClosed after the end.
        """
        if self._reporter is None or self._producer is None:
            raise ClientClosed("the audit's producer is closed")
        async with self._publishing:
            taken, first_unwritten = self._producer.serials
            if not self._producer.has_open_transaction:
                self._ledger.promise(self._low_time(), taken=taken, first_unwritten=first_unwritten)
            due, count, low_time_ms = self._ledger.due(), self._ledger.count, self._ledger.low_time_ms
            for window, part, counts in due:
                await self._send(self._reporter, self._report(window, part, counts))
            await self._reporter.flush()
            self._ledger.mark_published(due)
            self._sequence += 1
            await self._send(
                self._reporter,
                SessionReport(
                    producer=self.name,
                    session=self.session,
                    sequence=self._sequence,
                    topics=tuple(one for one in self._topics if one not in self.refused),
                    window_ms=self._window_ms,
                    count=count,
                    low_time_ms=low_time_ms,
                    lease_ms=self._lease_ms,
                    sent_ms=clock_ms(),
                    is_closed=is_closing,
                ),
            )
            await self._reporter.flush()

    async def _send(self, producer: Sending, report: SessionReport | CountsReport) -> None:
        await producer.send(self.audit_topic, report.value(), key=report.key(), partition=self._partition)

    def _report(self, window: WindowKey, part: int, counts: Counts) -> CountsReport:
        assert self._client is not None
        self._sequence += 1
        topic, partition = window.topic_partition
        return CountsReport(
            producer=self.name,
            session=self.session,
            sequence=self._sequence,
            part=part,
            topic=topic,
            topic_id=str(self._client.cluster.topic(topic).id),
            partition=partition,
            window_start_ms=window.window_start_ms,
            window_ms=self._window_ms,
            counts=counts,
            sent_ms=clock_ms(),
        )

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                await self.publish()
            except OdradekError as failure:
                logger.warning("counts of session %s wait for the next interval: %s", self.session, failure)
