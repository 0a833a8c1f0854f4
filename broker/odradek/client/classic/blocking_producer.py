"""The producer for programs without an event loop (documents 002 "Producer" and 004, 5.1).

`producer.type=sync`: `send` runs the engine in the caller's thread, and returns when the messages are written.
`producer.type=async`: `send` appends to a queue. A thread takes batches from it, and another one runs the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from odradek.client.classic.background_sender import BackgroundSender
from odradek.client.classic.errors import InvalidConfigException, QueueClosedException
from odradek.client.classic.message_sender import MessageSender
from odradek.client.classic.message_sets import MessageAndOffset
from odradek.client.classic.messages import (
    CallbackHandler,
    Encoder,
    EventHandler,
    KeyedMessage,
    Message,
    MessageSet,
    Partitioner,
    ProducerData,
)
from odradek.client.classic.plugins import Plugins
from odradek.client.classic.producer_queue import ProducerQueue
from odradek.client.classic.properties import PRODUCER, Properties
from odradek.client.own_loops import CallerLoop
from odradek.network.network import Network

Data = KeyedMessage | ProducerData
Messages = MessageSet | Message | bytes | Iterable[Message | bytes]


class DefaultEventHandler:
    """Encodes, partitions and writes in the thread that calls it."""

    def __init__(
        self,
        properties: Properties,
        *,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        network: Network | None = None,
    ) -> None:
        self._sender = MessageSender(
            properties,
            encoder=encoder,
            key_encoder=key_encoder,
            partitioner=partitioner,
            network=network,
            is_loop_running=False,
        )
        self._loop = CallerLoop("a Producer, whose sent messages are all written,")

    def handle(self, events: Sequence[KeyedMessage]) -> None:
        """Write the messages, and wait until they are."""
        self._loop.run(lambda: self._sender.send(events))

    def close(self) -> None:
        if not self._loop.is_closed:
            self._loop.run(self._sender.close)
            self._loop.close()


class Producer:
    """`with Producer({"broker.list": "127.0.0.1:9092"}) as producer: producer.send(KeyedMessage("orders", b"tea"))`.

    Several threads may share it. Messages and keys are bytes unless there are encoders. An `event_handler` takes the
    place of encoding, partitioning and sending. `callback_handler` follows the queue of an asynchronous producer.
    """

    _kind: str | None = None

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        event_handler: EventHandler | None = None,
        callback_handler: CallbackHandler | None = None,
        network: Network | None = None,
    ) -> None:
        """Raises InvalidConfigException. It connects with the first message."""
        self.properties = Properties(PRODUCER, _set_kind(properties, self._kind))
        plugins = Plugins(
            self.properties.given,
            encoder=encoder,
            key_encoder=key_encoder,
            partitioner=partitioner,
            event_handler=event_handler,
            callback_handler=callback_handler,
        )
        is_queued = self.properties["producer.type"] == "async"
        new_handler = BackgroundSender if is_queued else DefaultEventHandler
        self._handler = plugins.event_handler or new_handler(
            self.properties,
            encoder=plugins.encoder,
            key_encoder=plugins.key_encoder,
            partitioner=plugins.partitioner,
            network=network,
        )
        self._queue: ProducerQueue | None = None
        if is_queued:
            callbacks = plugins.callback_handler or CallbackHandler()
            self._queue = ProducerQueue(self.properties, self._handler, callbacks)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: Data | Iterable[Data] | str, messages: Messages | None = None) -> None:
        """Send one message, or a list of them, of any topics and keys; or a topic's name and its messages.

        A synchronous producer raises the error of a single message, and FailedToSendMessageException for a list. An
        asynchronous one raises QueueFullException for the first message that the full queue refuses, and keeps those
        before it. Both raise QueueClosedException after `close`.
        """
        queue = self._queue
        if queue is not None and type(data) is KeyedMessage:
            queue.put(data)
            return
        events = flat_messages(data, messages)
        if queue is not None:
            for event in events:
                queue.put(event)
            return
        if self._closed:
            raise QueueClosedException("the producer is closed, and takes no more messages")
        if events and not isinstance(self._handler, BackgroundSender):
            self._handler.handle(events)

    def flush(self) -> None:
        """Wait until all messages so far are written. Raises FailedToSendMessageException with those that are not."""
        if self._queue is not None:
            self._queue.flush()

    @property
    def waiting_count(self) -> int:
        """The messages in the queue of an asynchronous producer."""
        return 0 if self._queue is None else self._queue.waiting_count

    @property
    def failed_count(self) -> int:
        """The messages that an asynchronous producer took and could not write."""
        return 0 if self._queue is None else self._queue.failed_count

    def close(self) -> None:
        """Send what waits, and close the connections. Raises as `flush`."""
        if self._closed:
            return
        self._closed = True
        if self._queue is not None:
            self._queue.close()
        else:
            self._handler.close()


def flat_messages(data: Data | Iterable[Data] | str, messages: Messages | None = None) -> list[KeyedMessage]:
    """The messages of what a program sends. Raises TypeError."""
    if isinstance(data, str):
        return _messages_of(data, messages)
    if messages is not None:
        raise TypeError("send takes messages besides a topic's name alone: send('orders', MessageSet(…))")
    given = [data] if isinstance(data, KeyedMessage | ProducerData) else list(data)
    events: list[KeyedMessage] = []
    for one in given:
        if isinstance(one, ProducerData):
            events += one.messages()
        elif isinstance(one, KeyedMessage):
            events.append(one)
        else:
            raise TypeError(
                f"send takes KeyedMessage or ProducerData, not {type(one).__name__}; write KeyedMessage('orders', b'…')"
            )
    return events


def _messages_of(topic: str, messages: Messages | None, partition: int | None = None) -> list[KeyedMessage]:
    """A set of messages, or one, for a topic. Those of a ByteBufferMessageSet keep their keys and headers."""
    if messages is None:
        raise TypeError(f"send('{topic}') has no messages; write send('{topic}', MessageSet(Message(b'…')))")
    given = [messages] if isinstance(messages, Message | bytes) else list(messages)
    events: list[KeyedMessage] = []
    for one in given:
        if isinstance(one, MessageAndOffset):
            event = KeyedMessage(topic, Message(one.payload), headers=one.headers, partition=partition)
            event.key = None if one.key is None else Message(one.key)
        elif isinstance(one, Message | bytes):
            event = KeyedMessage(topic, one, partition=partition)
        else:
            raise TypeError(f"a set has Messages, not {type(one).__name__}; write Message(b'…')")
        events.append(event)
    return events


class SyncProducer(Producer):
    """The synchronous producer that Producer wraps (document 002): a topic, its messages, and a partition if wanted."""

    _kind = "sync"

    def send(  # type: ignore[override]
        self, topic: str, messages: Messages, partition: int | None = None
    ) -> None:
        """Write a set of messages in one call. Without `partition` they go to a random one. Raises as Producer's."""
        super().send(_messages_of(topic, messages, partition))


class AsyncProducer(Producer):
    """The producer with a queue that Producer wraps (document 002)."""

    _kind = "async"

    def send(  # type: ignore[override]
        self, topic: str, event: object, partition: int | None = None
    ) -> None:
        """Queue an event, which the encoder turns into a message later. Raises QueueFullException."""
        super().send(KeyedMessage(topic, event, partition=partition))


def _set_kind(properties: Mapping[str, object], kind: str | None) -> Mapping[str, object]:
    """The properties of one of the two low-level producers, which has its kind."""
    if kind is None:
        return properties
    if str(properties.get("producer.type", kind)).strip() != kind:
        raise InvalidConfigException(f"this producer is {kind}; leave out producer.type, or use Producer")
    return {**properties, "producer.type": kind}
