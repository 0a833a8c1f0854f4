"""Which transactions hold back a partition's read-committed readers: the open ones, and those that ended lately.

The last stable offset is the first offset that such a reader may not see. It is where the oldest transaction begins
that is open, or whose marker is not below the high watermark. Else it is the high watermark itself.

What it leaves out: what is known of each producer (`producers`), and aborted transactions (`transaction_index`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from odradek.foundation.named_tuple import NamedTuple


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended: its first offset and the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class OngoingTransaction(NamedTuple):
    """A transaction without a marker. `started_ms` is its first batch's timestamp; after a restart, perhaps a later
    one.
    """

    first_offset: int
    producer_id: int
    started_ms: int


class OpenTransactions:
    """The transactions of one partition that bound its last stable offset."""

    __slots__ = ("_open", "_unreplicated", "may_hold_back")

    def __init__(self) -> None:
        self.may_hold_back = False
        """Whether one is open, or its marker may not be below the high watermark."""
        # By first offset, in the order of offsets.
        self._open: dict[int, OngoingTransaction] = {}
        # Ended by a marker that may not be below the high watermark, in the markers' order. One that began after a
        # later one is left out, so the first of them is the oldest.
        self._unreplicated: deque[CompletedTransaction] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OngoingTransaction]:
        """The open ones, the oldest first."""
        return iter(tuple(self._open.values()))

    def begin(self, first_offset: int, producer_id: int, *, started_ms: int) -> None:
        """A transaction begins at the log's end."""
        self._open[first_offset] = OngoingTransaction(first_offset, producer_id, started_ms)
        self.may_hold_back = True

    def end(self, completed: CompletedTransaction) -> None:
        """A marker was written for one of them."""
        self._open.pop(completed.first_offset, None)
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[-1].first_offset >= completed.first_offset:
            unreplicated.pop()
        unreplicated.append(completed)
        self.may_hold_back = True

    def restore(self, transactions: Iterable[OngoingTransaction]) -> None:
        """Begin with those of a snapshot, in any order."""
        self._open = {one.first_offset: one for one in sorted(transactions)}
        self._unreplicated.clear()
        self.may_hold_back = bool(self._open)

    def clear(self) -> None:
        self._open.clear()
        self._unreplicated.clear()
        self.may_hold_back = False

    @property
    def oldest(self) -> OngoingTransaction | None:
        """The open one that began first."""
        return next(iter(self._open.values())) if self._open else None

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins; None when none is open."""
        return next(iter(self._open)) if self._open else None

    def first_unstable_offset(self, *, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker is not below `high_watermark`."""
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            unreplicated.popleft()
        self.may_hold_back = bool(self._open or unreplicated)
        first = self.first_undecided_offset
        if unreplicated and (first is None or unreplicated[0].first_offset < first):
            return unreplicated[0].first_offset
        return first

    def last_stable_offset(self, *, high_watermark: int) -> int:
        """All below is held by the whole in-sync set and belongs to no open transaction."""
        if not self.may_hold_back:
            return high_watermark
        first = self.first_unstable_offset(high_watermark=high_watermark)
        return high_watermark if first is None or first > high_watermark else first

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once `completed` has ended, as an index of aborts stores it.

        As in Kafka it passes over transactions whose markers are not replicated yet.
        """
        first = self.first_undecided_offset
        return completed.last_offset + 1 if first is None else first
