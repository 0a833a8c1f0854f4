"""The producer for asyncio. With `producer.type=async` its queue is sent by a task; there are no callbacks.

Encoders and partitioners run on the event loop, so they must not block.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from odradek.clients.blocking_producer import Data, flat_messages
from odradek.clients.brokers import check_one_source
from odradek.clients.errors import FailedToSendMessageException, QueueClosedException, QueueFullException
from odradek.clients.message_sender import MessageSender
from odradek.clients.messages import DefaultEncoder, Encoder, HashPartitioner, KeyedMessage, Partitioner
from odradek.clients.properties import PRODUCER, Properties
from odradek.foundation.limits import PRODUCER_QUEUE_FAILURES_MAX
from odradek.foundation.tasks import TaskOwner
from odradek.transport.network import Network

logger = logging.getLogger(__name__)


class Producer:
    """`async with Producer({"broker.list": "127.0.0.1:9092"}) as producer: await producer.send(message)`."""

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        network: Network | None = None,
    ) -> None:
        """Raises InvalidConfigException. It connects with the first message."""
        self.properties = Properties(PRODUCER, properties)
        check_one_source(self.properties)
        self._sender = MessageSender(
            self.properties,
            encoder=encoder or DefaultEncoder(),
            key_encoder=key_encoder or encoder or DefaultEncoder(),
            partitioner=partitioner or HashPartitioner(),
            network=network,
        )
        self._is_queued = self.properties["producer.type"] == "async"
        self._size_max: int = self.properties["queue.buffering.max.messages"]
        self._batch_size: int = min(self.properties["batch.num.messages"], self._size_max)
        self._queue: deque[KeyedMessage] = deque()
        self._changed = asyncio.Condition()
        self._oldest_at = 0.0
        self._added = self._finished = self._flush_to = 0
        self._failures: list[tuple[object, Exception]] = []
        self.failed_count = 0
        self._closed = False
        self._tasks = TaskOwner("producer")
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, data: Data | Iterable[Data]) -> None:
        """Write one message or a list, or queue them; as the blocking producer's."""
        events = flat_messages(data)
        if self._closed:
            raise QueueClosedException("the producer is closed, and takes no more messages")
        if not self._is_queued:
            await self._sender.send(events)
            return
        if self._sending is None:
            self._sending = self._tasks.start(self._run(), name="send")
        for event in events:
            await self._put(event)

    async def _put(self, event: KeyedMessage) -> None:
        timeout_ms = self.properties["queue.enqueue.timeout.ms"]
        if len(self._queue) >= self._size_max:
            try:
                async with asyncio.timeout(None if timeout_ms < 0 else timeout_ms / 1000), self._changed:
                    await self._changed.wait_for(lambda: len(self._queue) < self._size_max or self._closed)
            except TimeoutError:
                raise QueueFullException(
                    f"the producer's queue is full with {self._size_max} messages (queue.size): this one was not taken"
                ) from None
            if self._closed:
                raise QueueClosedException("the producer is closed, and takes no more messages")
        if not self._queue:
            self._oldest_at = asyncio.get_running_loop().time()
        self._queue.append(event)
        self._added += 1
        if len(self._queue) in (1, self._batch_size):
            async with self._changed:
                self._changed.notify_all()

    async def flush(self) -> None:
        """Wait until all messages so far are written. Raises FailedToSendMessageException with those that are not."""
        async with self._changed:
            target = self._flush_to = self._added
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._finished >= target)
        self._raise_failures()

    async def close(self) -> None:
        """Send what waits, and close the connections. Raises as `flush`."""
        if self._closed:
            return
        try:
            if self._sending is not None:
                await self.flush()
        finally:
            self._closed = True
            async with self._changed:
                self._changed.notify_all()
            await self._tasks.close()
            await self._sender.close()
        self._raise_failures()

    def _raise_failures(self) -> None:
        failures, self._failures = self._failures, []
        if failures:
            raise FailedToSendMessageException(
                f"{len(failures)} messages were not written since the last flush; the first reason: {failures[0][1]}",
                failures,
            ) from failures[0][1]

    # --- the sending task -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._wait_until_due()
            count = min(len(self._queue), self._batch_size)
            taken = [self._queue.popleft() for _ in range(count)]
            self._oldest_at = asyncio.get_running_loop().time()
            try:
                await self._sender.send(taken)
            except FailedToSendMessageException as failure:
                self._note(failure.failures)
            except Exception as failure:
                self._note([(event, failure) for event in taken])
            async with self._changed:
                self._finished += count
                self._changed.notify_all()

    async def _wait_until_due(self) -> None:
        seconds_max = self.properties["queue.buffering.max.ms"] / 1000
        loop = asyncio.get_running_loop()
        async with self._changed:
            while not self._queue or (
                len(self._queue) < self._batch_size
                and self._finished >= self._flush_to
                and loop.time() - self._oldest_at < seconds_max
            ):
                try:
                    async with asyncio.timeout_at(self._oldest_at + seconds_max if self._queue else None):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def _note(self, failures: Sequence[tuple[object, Exception]]) -> None:
        logger.error("%d messages were not written: %s", len(failures), failures[0][1] if failures else "?")
        self.failed_count += len(failures)
        self._failures += failures[: max(PRODUCER_QUEUE_FAILURES_MAX - len(self._failures), 0)]
