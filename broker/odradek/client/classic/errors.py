"""The exceptions of the documents' clients, with the names that Kafka 0.7 and 0.8 gave them."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.client.errors import ClientError
from odradek.foundation.ids import TopicPartition


class QueueFullException(ClientError):
    """The asynchronous producer's queue is full. The message was not taken, and is not sent."""


class QueueClosedException(ClientError):
    """The producer is closed."""


class InvalidPartitionException(ClientError):
    """A partitioner returned no partition of the topic."""


class NoBrokersForPartitionException(ClientError):
    """The topic has no partition that a broker leads."""


class InvalidConfigException(ClientError):
    """Properties that are unknown, contradict each other, or have a wrong value."""


class MessageSizeTooLargeException(ClientError):
    """A message is larger than what the request or the topic allows."""


class FailedToSendMessageException(ClientError):
    """Messages that were not written. `failures` has each with its error."""

    def __init__(self, text: str, failures: Sequence[tuple[object, Exception]] = ()) -> None:
        super().__init__(text)
        self.failures = tuple(failures)


class ConsumerTimeoutException(ClientError):
    """No message arrived within `consumer.timeout.ms`. The stream can be iterated again."""


class MessageStreamsExistException(ClientError):
    """Streams may be created once for each connector."""


class ConsumerRebalanceFailedException(ClientError):
    """The consumer could not be registered, or its id is taken."""


class OutOfRangeException(ClientError):
    """The partition does not hold the offset. `partition` says which one."""

    def __init__(self, text: str, partition: TopicPartition | None = None) -> None:
        super().__init__(text)
        self.partition = partition
