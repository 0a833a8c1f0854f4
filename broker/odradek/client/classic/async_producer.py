"""The producer for asyncio. With `producer.type=async` its queue is sent by a task; there are no callbacks.

Encoders and partitioners run on the event loop, so they must not block.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from odradek.client.classic.blocking_producer import Data, Messages, flat_messages
from odradek.client.classic.errors import (
    InvalidConfigException,
    QueueClosedException,
    QueueFullException,
)
from odradek.client.classic.message_queue import MessageQueue
from odradek.client.classic.message_sender import MessageSender
from odradek.client.classic.messages import Encoder, KeyedMessage, Partitioner
from odradek.client.classic.plugins import Plugins
from odradek.client.classic.properties import PRODUCER, Properties
from odradek.client.own_loops import warn_unclosed
from odradek.foundation.tasks import TaskOwner
from odradek.network.network import Network


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
        self._is_begun = False
        self.properties = Properties(PRODUCER, properties)
        plugins = Plugins(
            self.properties.given, encoder=encoder, key_encoder=key_encoder, partitioner=partitioner
        )
        if plugins.event_handler or plugins.callback_handler:
            raise InvalidConfigException(
                "event.handler and callback.handler are for the Producer of threads; asyncio's has neither"
            )
        self._sender = MessageSender(
            self.properties,
            encoder=plugins.encoder,
            key_encoder=plugins.key_encoder,
            partitioner=plugins.partitioner,
            network=network,
            is_loop_running=True,
        )
        self._is_queued = self.properties["producer.type"] == "async"
        self._queue = MessageQueue(self.properties, lambda: asyncio.get_running_loop().time())
        self._changed = asyncio.Event()  # another one after each change
        self._tasks = TaskOwner("producer")
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, data: Data | Iterable[Data] | str, messages: Messages | None = None) -> None:
        """Write one message or a list, or queue them; as the blocking producer's."""
        events = flat_messages(data, messages)
        self._is_begun = True
        if self._queue.is_closed:
            raise QueueClosedException("the producer is closed, and takes no more messages")
        if not self._is_queued:
            await self._sender.send(events)
            return
        if self._sending is None:
            self._sending = self._tasks.start(self._run(), name="send")
        for event in events:
            await self._put(event)

    async def _put(self, event: KeyedMessage) -> None:
        queue = self._queue
        if not queue.add(event):
            try:
                async with asyncio.timeout(queue.wait_seconds_max):
                    await self._wait_for(lambda: queue.add(event))
            except TimeoutError:
                raise QueueFullException(
                    f"the producer's queue is full with {queue.size_max} messages (queue.size): this one was not taken"
                ) from None
        if len(queue.messages) in (1, queue.batch_size):
            self._notify()

    async def flush(self) -> None:
        """Wait until all messages so far are written. Raises FailedToSendMessageException with those that are not."""
        is_finished = self._queue.flush()
        self._notify()
        await self._wait_for(is_finished)
        self._queue.raise_failures()

    async def close(self) -> None:
        """Send what waits, and close the connections. Raises as `flush`."""
        if self._queue.is_closed:
            return
        try:
            if self._sending is not None:
                await self.flush()
        finally:
            self._queue.is_closed = True
            self._notify()
            await self._tasks.close()
            await self._sender.close()
        self._queue.raise_failures()

    @property
    def failed_count(self) -> int:
        """The messages that were taken and could not be written."""
        return self._queue.failed_count

    def __del__(self) -> None:
        if getattr(self, "_is_begun", False) and not self._queue.is_closed:
            taken = self._queue.describe_unfinished()
            warn_unclosed(f"a Producer was not closed{f', and these are lost: {taken}' if taken else ''}")

    # --- the sending task -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._wait_until_due()
            number, taken = self._queue.take()
            self._notify()
            await self._sender.submit(taken, partial(self._note, number))

    def _note(self, number: int, events: Sequence[KeyedMessage], failure: Exception | None) -> None:
        if failure is not None:
            self._queue.note([(event, failure) for event in events])
        self._queue.finish(number, len(events))
        self._notify()

    async def _wait_until_due(self) -> None:
        while (left := self._queue.seconds_until_due()) is None or left > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()

    async def _wait_for(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._changed.wait()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
