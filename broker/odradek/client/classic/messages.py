"""Messages for a producer, and the parts that a program plugs into it: encoders, partitioners and handlers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Protocol

from odradek.client.producer.partitioners import partition_for_key


class Message:
    """A payload of bytes, and nothing else (document 000). None is a null, a tombstone in a compacted topic."""

    __slots__ = ("payload",)

    def __init__(self, payload: bytes | bytearray | memoryview | None) -> None:
        """Raises TypeError for what are no bytes."""
        if payload is not None and not isinstance(payload, bytes | bytearray | memoryview):
            raise TypeError(
                f"a Message has bytes, not {type(payload).__name__}; write Message(text.encode())"
            )
        self.payload = None if payload is None else bytes(payload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and other.payload == self.payload

    def __hash__(self) -> int:
        return hash(self.payload)

    def __repr__(self) -> str:
        return f"Message({self.payload!r})"


class MessageSet:
    """Messages that are sent together: `producer.send("orders", MessageSet(Message(b"tea")))` (document 000).

    What a SimpleConsumer fetches is one too, a ByteBufferMessageSet.
    """

    def __init__(self, *messages: Message) -> None:
        """Raises TypeError for what is no Message."""
        for one in messages:
            if not isinstance(one, Message):
                raise TypeError(f"a MessageSet has Messages, not {type(one).__name__}; write Message(b'…')")
        self._messages = messages

    def __iter__(self) -> Iterator[object]:
        return iter(self._messages)


class KeyedMessage:
    """A message for a topic. `key` chooses the partition, and is stored with the message; None for a random partition.

    `part_key` chooses the partition instead of `key`, and is not stored (0.8). With `partition` nothing is chosen.
    """

    __slots__ = ("headers", "key", "message", "part_key", "partition", "topic")

    def __init__(
        self,
        topic: str,
        message: Any,
        *,
        key: Any = None,
        part_key: Any = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.topic = topic
        self.message = message
        self.key = key
        self.part_key = part_key
        self.partition = partition
        self.headers = headers

    def __repr__(self) -> str:
        return f"KeyedMessage({self.topic!r}, {self.message!r}, key={self.key!r})"


class ProducerData:
    """Several messages of one topic and key (0.7)."""

    __slots__ = ("data", "key", "topic")

    def __init__(self, topic: str, data: Sequence[object], *, key: object | None = None) -> None:
        self.topic = topic
        self.key = key
        self.data = data

    def messages(self) -> list[KeyedMessage]:
        """One for each element of `data`."""
        return [KeyedMessage(self.topic, one, key=self.key) for one in self.data]


class Encoder(Protocol):
    """Turns what a program sends into bytes, or a Message. What it raises is raised for that message alone.

    A Message that a program sends is passed through without it.
    """

    def to_message(self, data: object) -> bytes | Message | None: ...


class DefaultEncoder:
    """Bytes as they are; None is a null, a tombstone in a compacted topic."""

    def to_message(self, data: object) -> bytes | None:
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise TypeError(
            f"DefaultEncoder takes bytes, not {type(data).__name__}; give the producer an encoder: StringEncoder()"
        )


class StringEncoder:
    """Text in an encoding, UTF-8 unless said otherwise."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def to_message(self, data: object) -> bytes | None:
        return None if data is None else str(data).encode(self._encoding)


class Decoder(Protocol):
    """Turns the bytes of a message into what a stream's program wants."""

    def to_event(self, message: bytes | None) -> object: ...


class DefaultDecoder:
    """Bytes as they are."""

    def to_event(self, message: bytes | None) -> bytes | None:
        return message


class StringDecoder:
    """Text in an encoding, UTF-8 unless said otherwise."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def to_event(self, message: bytes | None) -> str | None:
        return None if message is None else message.decode(self._encoding)


class Partitioner(Protocol):
    """Chooses a partition from 0 to before `num_partitions`. `key` is what the program gave, never None."""

    def partition(self, key: Any, num_partitions: int) -> int: ...


class HashPartitioner:
    """By murmur2 of the encoded key, as Java's clients: all of them choose the same partition for a key."""

    def partition(self, key: bytes, num_partitions: int) -> int:
        return partition_for_key(key, num_partitions)


class RandomPartitioner:
    """A random partition for every message, whatever its key is."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = random or Random()

    def partition(self, key: object, num_partitions: int) -> int:
        return self._random.randrange(num_partitions)


class CallbackHandler:
    """The stages of an asynchronous producer's queue; override those that matter.

    `before_enqueue` and `after_enqueue` run in the thread that sends, the others in the producer's own.
    """

    def before_enqueue(self, data: KeyedMessage) -> KeyedMessage:
        """May replace the message."""
        return data

    def after_enqueue(self, data: KeyedMessage, added: bool) -> None:
        """`added` is false for a message that the full queue refused."""

    def after_dequeuing_existing_data(self, data: KeyedMessage | None) -> Sequence[KeyedMessage]:
        """For each message that is taken from the queue, and None when `queue.time` has passed. What it returns joins
        the batch in its place.
        """
        return () if data is None else (data,)

    def before_sending_data(self, data: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
        """May replace the batch."""
        return data

    def last_batch_before_close(self) -> Sequence[KeyedMessage]:
        """Messages to send at the very end, after all that was queued."""
        return ()

    def close(self) -> None:
        """The last batch is sent."""


class EventHandler(Protocol):
    """Encodes and sends a batch; what it raises is what became of the batch."""

    def handle(self, events: Sequence[KeyedMessage]) -> None: ...

    def close(self) -> None: ...
