"""What the coordinator needs of the log under `__consumer_offsets`.

The broker gives it partitions (`offsets_topic`), a test a list in memory: the contract suite in
`tests/groups` holds for both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Protocol


class OffsetsLog(Protocol):
    """The partitions of the offsets topic, by number."""

    def partition_count(self) -> int:
        """How many partitions the topic has, or will have when it does not exist yet. Never changes after
        that.
        """
        ...

    def led_partitions(self) -> Iterable[int]:
        """The partitions that this broker leads now; none before the topic exists."""
        ...

    def is_ready(self, partition: int) -> bool:
        """Whether this broker leads the partition now, and knows it where the registry is silent."""
        ...

    def led_since_epoch(self, partition: int) -> int:
        """The leader epoch from which on this broker has led it without a break. When it grows the partition is loaded
        anew.
        """
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """The log's start offset and end offset."""
        ...

    def size_bytes(self, partition: int) -> int:
        """The bytes that the log occupies."""
        ...

    def append(self, partition: int, batch: bytearray) -> int | Awaitable[int]:
        """Append one batch; gives its first offset once it is committed. Raises what partitions raise.

        Order: batches appended one after the other stand in the log in that order.
        """
        ...

    def read(self, partition: int, offset: int, *, bytes_max: int) -> bytes | Awaitable[bytes]:
        """Batches from the one that holds `offset`, of which the first is whole and the last may be cut off by
        `bytes_max`. Nothing where `offset` is the end.
        """
        ...

    def flush(self, partition: int) -> Awaitable[None]:
        """Everything appended so far is on the disk when this is done."""
        ...

    def advance_start(self, partition: int, offset: int) -> None:
        """Drop what lies below `offset`."""
        ...

    def ensure_topic(self) -> Awaitable[None]:
        """Create the topic when it is not there. Raises what the controller raises."""
        ...
