"""Batches of idempotent producers that were refused for a reason that passes, until they come again.

A client has up to five batches of a partition under way. Where a broker refuses the first, because it does not lead yet
or too few replicas are in sync, and takes in the next because that has passed meanwhile, the next is out of order. That
is what Apache Kafka answers, and librdkafka then takes another epoch for all its partitions: what it was not answered
elsewhere it sends again under that epoch, and it stands in the log twice. So the next is refused as the first was,
until the first comes again: to every client that says that nothing was written, and to send both again, in order.

Left out: batches that were refused by another broker, and topics' partitions that are not kept here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.foundation.limits import (
    PRODUCER_BATCHES_REMEMBERED,
    REFUSED_BATCHES_SECONDS_MAX,
    REFUSED_PRODUCERS_MAX,
)
from odradek.log.producers import ProducerStates
from odradek.records.batch import HEADER_BYTES, SEQUENCE_MAX, BatchHeader, read_header


class _Refused:
    """What was refused of one producer in one epoch, by base sequence."""

    __slots__ = ("epoch", "failure", "sequences", "until_seconds")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.sequences: deque[int] = deque(maxlen=PRODUCER_BATCHES_REMEMBERED)
        self.failure: Exception
        self.until_seconds = 0.0


class RefusedBatches:
    """What one partition refused. Empty, and false, nearly always."""

    __slots__ = ("_by_producer", "_now")

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives seconds that never go back."""
        self._now = now
        self._by_producer: dict[int, _Refused] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def note(self, records: memoryview | bytes, failure: Exception) -> None:
        """These records were refused; whatever they are."""
        if len(records) < HEADER_BYTES:
            return
        header = read_header(records)
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        known = self._by_producer.pop(header.producer_id, None)
        if known is None or known.epoch != header.producer_epoch:
            known = _Refused(header.producer_epoch)
        if header.base_sequence not in known.sequences:
            known.sequences.append(header.base_sequence)
        known.failure = failure
        known.until_seconds = self._now() + REFUSED_BATCHES_SECONDS_MAX
        self._by_producer[header.producer_id] = known
        if len(self._by_producer) > REFUSED_PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]

    def taken(self, records: memoryview | bytes) -> None:
        """These records are in the log."""
        header = read_header(records)
        known = self._known(header)
        if known is not None and header.base_sequence in known.sequences:
            known.sequences.remove(header.base_sequence)
            if not known.sequences:
                del self._by_producer[header.producer_id]

    def skipped(self, records: memoryview | bytes, producers: ProducerStates) -> Exception | None:
        """What to refuse the records with, if the batch that has to come before them is one that was refused.

        A producer of which the log knows nothing may begin anywhere: there it is any that was refused before them.
        """
        if len(records) < HEADER_BYTES:
            return None
        header = read_header(records)
        known = self._known(header)
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

    def _known(self, header: BatchHeader) -> _Refused | None:
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
