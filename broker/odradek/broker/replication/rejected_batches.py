"""Batches of idempotent producers that were refused for a reason that passes, until they come again.

A client has up to five batches of a partition in flight. A broker may refuse the first, because it does not lead yet or
too few replicas are in sync. When that has passed it could accept the second, which is out of order: its sequence
number is too high.

Apache Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka then takes another epoch for all its partitions. It sends
batches without an answer on other partitions again under that epoch, and they are in the log twice.

So this broker refuses the second batch with the first one's error, until the first comes again. To every client that
says that nothing was written, and that both are to be sent again in sequence.

What it leaves out: batches that another broker refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.foundation.limits import (
    PRODUCER_BATCHES_REMEMBERED,
    REFUSED_BATCHES_SECONDS_MAX,
    REFUSED_PRODUCERS_MAX,
)
from odradek.storage.producers import ProducerStates
from odradek.wire.records.batch import HEADER_BYTES, SEQUENCE_MAX, BatchHeader, read_header


class _Rejected:
    """The refused batches of one producer in one epoch, by base sequence."""

    __slots__ = ("epoch", "failure", "sequences", "until_seconds")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.sequences: deque[int] = deque(maxlen=PRODUCER_BATCHES_REMEMBERED)
        self.failure: Exception
        self.until_seconds = 0.0


class RejectedBatches:
    """The refused batches of one partition. Nearly always empty, and then false."""

    __slots__ = ("_by_producer", "_now")

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives monotonic seconds."""
        self._now = now
        self._by_producer: dict[int, _Rejected] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def note(self, records: memoryview | bytes, failure: Exception) -> None:
        """Any records were refused: remember those of an idempotent producer."""
        if len(records) < HEADER_BYTES:
            return
        header = read_header(records)
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        known = self._by_producer.pop(header.producer_id, None)
        if known is None or known.epoch != header.producer_epoch:
            known = _Rejected(header.producer_epoch)
        if header.base_sequence not in known.sequences:
            known.sequences.append(header.base_sequence)
        known.failure = failure
        known.until_seconds = self._now() + REFUSED_BATCHES_SECONDS_MAX
        self._by_producer[header.producer_id] = known
        if len(self._by_producer) > REFUSED_PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]

    def note_append(self, records: memoryview | bytes) -> None:
        """These records were appended."""
        header = read_header(records)
        known = self._find_rejected(header)
        if known is not None and header.base_sequence in known.sequences:
            known.sequences.remove(header.base_sequence)
            if not known.sequences:
                del self._by_producer[header.producer_id]

    def find_skipped(self, records: memoryview | bytes, producers: ProducerStates) -> Exception | None:
        """The error for these records, if the batch that has to come before them was refused.

        A producer that the log does not know may begin at any sequence number: for it, any refused batch before them
        counts.
        """
        if len(records) < HEADER_BYTES:
            return None
        header = read_header(records)
        known = self._find_rejected(header)
        if known is None:
            return None
        wanted = producers.next_sequence(header.producer_id, header.producer_epoch)
        if wanted is None:
            is_skipped = any(_is_before(one, header.base_sequence) for one in known.sequences)
        else:
            is_skipped = wanted in known.sequences and _is_before(wanted, header.base_sequence)
        if not is_skipped:
            return None
        return type(known.failure)(
            f"{known.failure} So were batches of producer {header.producer_id} that come before this one; "
            "send them again first."
        )

    def _find_rejected(self, header: BatchHeader) -> _Rejected | None:
        known = self._by_producer.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            return None
        if known.until_seconds <= self._now():
            del self._by_producer[header.producer_id]
            return None
        return known


def _is_before(one: int, other: int) -> bool:
    """Whether a sequence number comes before another, over the wrap-around too."""
    return 0 < (other - one) & SEQUENCE_MAX <= SEQUENCE_MAX // 2
