"""Which transactions a pass over a log meets: whose data goes, and whose marker may go.

One object is used for one pass over all segments from the log's start on, in all groups of segments. Data below the
first uncleanable offset belongs to transactions that have ended, so each is either aborted, and in an index, or
committed. A marker may be removed once no batch of its transaction is left, also not an empty one. A marker without
data means nothing. Data without its marker would open the transaction again (KAFKA-8351).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from odradek.storage.compaction.reading import StoredBatch
from odradek.storage.transaction_index import AbortedTransaction
from odradek.wire.records.batch import BatchView
from odradek.wire.records.control import ControlType, control_type
from odradek.wire.records.record import records


class _Aborted:
    __slots__ = ("has_data", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.has_data = False


class TransactionPass:
    """Batches are shown to it in the order of their offsets, each once."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = [(one.first_offset, one.last_offset, one) for one in aborted]
        heapq.heapify(self._to_come)
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()

    def is_aborted(self, batch: StoredBatch) -> bool:
        """Whether this batch of data belongs to an aborted transaction."""
        header = batch.header
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        aborted = self._aborted.get(header.producer_id)
        # One that ended before is left when its marker lies below the pass, or is gone.
        if aborted is None or aborted.transaction.last_offset < header.base_offset:
            self._committed.add(header.producer_id)
            return False
        aborted.has_data = True
        return True

    def end(self, batch: StoredBatch) -> tuple[bool, AbortedTransaction | None]:
        """Whether this control batch may go, and the aborted transaction that it ends and whose data was met.

        Raises CorruptRecord.
        """
        header = batch.header
        self._begin_up_to(header.last_offset)
        record = next(iter(records(BatchView(batch.raw))), None)
        if record is None:
            return True, None
        kind = control_type(record)
        producer_id = header.producer_id
        if kind == ControlType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if (
                aborted is None
                or not aborted.has_data
                or aborted.transaction.last_offset < header.base_offset
            ):
                return True, None
            return False, aborted.transaction
        if kind == ControlType.COMMIT:
            if producer_id not in self._committed:
                return True, None
            self._committed.discard(producer_id)
        return False, None

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[0][0] <= offset:
            transaction = heapq.heappop(self._to_come)[2]
            self._aborted[transaction.producer_id] = _Aborted(transaction)
