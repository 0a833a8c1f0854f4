"""The log under a coordinator's internal topic, such as `__consumer_offsets`, and the words for that topic.

A broker gives it the partitions that it leads (`internal_topic`), a test gives it a list in memory. The contract suite
in `tests/broker/groups` holds for both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Protocol

from odradek.foundation.clock import Clock
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.verification import VerificationToken
from odradek.wire.records.compression import Compression
from odradek.wire.records.control import Marker

EncodedRecord = tuple[bytes, bytes | None]  # key and value of one record; a value of None is a tombstone


class TransactionalWriter(NamedTuple):
    """The producer whose transaction a write belongs to, and its verification where it has to begin there."""

    producer_id: int
    producer_epoch: int
    token: VerificationToken | None = None


class CoordinatedTopic(NamedTuple):
    """An internal topic, and the words that errors and log lines use for it."""

    name: str  # as clients see it: `__consumer_offsets`
    title: str  # "the offsets topic"
    subject: str  # what a key names: "group"
    contents: str  # what a partition holds: "its groups and their offsets"
    late_setting: str  # the setting that bounds how long a commit may wait for replicas

    @property
    def moved(self) -> str:
        """The error text when another broker coordinates the key by now."""
        return f"this broker no longer coordinates the {self.subject}; find its coordinator again"


class TopicParts(NamedTuple):
    """The topic of one coordinator, and the settings by which its shards write to it."""

    topic: CoordinatedTopic
    log: InternalTopicLog
    clock: Clock
    compression: int = Compression.NONE
    late_after_ms: int = 0  # when a commit that waits for replicas is answered with an error

    def name_of(self, partition: int) -> str:
        """A partition for log lines and errors."""
        return f"{self.topic.title}, partition {partition}"


class InternalTopicLog(Protocol):
    """The partitions of one internal topic, by number."""

    def partition_count(self) -> int:
        """The count of partitions that the topic has, or will have once it exists. It never changes after that."""
        ...

    def list_led_partitions(self) -> Iterable[int]:
        """The partitions that this broker leads now; none before the topic exists."""
        ...

    def is_ready(self, partition: int) -> bool:
        """Whether this broker leads the partition now. It must know so, also while the registry does not answer."""
        ...

    def get_led_since_epoch(self, partition: int) -> int:
        """The leader epoch from which on this broker has led the partition without a break.

        When it has grown, the partition must be loaded again.
        """
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """The log's start offset and end offset."""
        ...

    def is_committed(self, partition: int, end_offset: int) -> bool:
        """Whether all before `end_offset` is committed, and no other leader can be without it. Raises what partitions
        raise.
        """
        ...

    def append(
        self, partition: int, batch: bytearray, *, token: VerificationToken | None = None
    ) -> int | Awaitable[int]:
        """Append one batch; gives its first offset once it is committed. Raises what partitions raise.

        The log keeps the order of the calls. `token` is for a batch that begins a transaction.
        """
        ...

    def begin_verification(
        self, partition: int, writer: TransactionalWriter, *, adds_partition: bool
    ) -> VerificationToken | None:
        """As `ProducerStates.begin_verification`. Raises what partitions raise."""
        ...

    def append_marker(
        self, partition: int, marker: Marker, *, transaction_version: int
    ) -> int | Awaitable[int]:
        """Append a marker unless it has come before; done once it is committed. Raises what partitions raise."""
        ...

    def read(self, partition: int, offset: int, *, bytes_max: int) -> bytes | Awaitable[bytes]:
        """Batches from the one that holds `offset`; nothing where `offset` is the end.

        The first batch is whole; the last one may be incomplete because of `bytes_max`.
        """
        ...

    def delete_records(self, partition: int, before_offset: int) -> None:
        """Delete what is below an offset that is committed. Raises what partitions raise."""
        ...

    def ensure_topic(self) -> Awaitable[None]:
        """Create the topic when it does not exist. Raises what the controller raises."""
        ...
