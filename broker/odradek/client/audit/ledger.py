"""The counts of a session, as plain state: no clock, no I/O. The publisher says when a report is due.

A promise ripens: it is published once every record that was taken before it is acknowledged and counted. Memory is
bounded by `windows_max`. A window that leaves gets another `part` when records for it follow, so that no count is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.client.audit.counts import Counts, digest, window_start
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.record import Record


class WindowKey(NamedTuple):
    """One window of one partition."""

    topic_partition: TopicPartition
    window_start_ms: int


@dataclass(slots=True)
class _Entry:
    part: int
    counts: Counts = field(default_factory=Counts)
    is_due: bool = True


class Ledger:
    """The counts of one session. `count` is of all records that are counted for good."""

    def __init__(self, *, window_ms: int, windows_max: int) -> None:
        self._window_ms = window_ms
        self._windows_max = windows_max
        self._entries: dict[WindowKey, _Entry] = {}
        self._pending: dict[WindowKey, Counts] = {}
        self._parts = 0
        self._promise: tuple[int, int] | None = None
        self.count = 0
        self.low_time_ms = -1
        self.dropped = 0
        """Records whose counts left before they were published. `count` has them, so that readers see the gap."""

    def __len__(self) -> int:
        return len(self._entries) + len(self._pending)

    # --- the lowest time ------------------------------------------------------------------------------------------

    def promise(self, low_time_ms: int, *, taken: int, first_unwritten: int | None) -> None:
        """Note that no record after the `taken` ones will be older, and ripen the promise before it."""
        if self._promise is not None:
            low, serial = self._promise
            if first_unwritten is None or first_unwritten >= serial:
                self.ripen(low)
                self._promise = None
        if first_unwritten is None:
            self.ripen(low_time_ms)
        elif self._promise is None:
            self._promise = (low_time_ms, taken)

    def ripen(self, low_time_ms: int) -> None:
        """Publish this lowest time from now on; it never goes back."""
        self.low_time_ms = max(self.low_time_ms, low_time_ms)

    # --- counting -------------------------------------------------------------------------------------------------

    def add(
        self, key: TopicPartition, records: Iterable[Record], *, base_offset: int, is_pending: bool
    ) -> None:
        """Count acknowledged records; pending ones until `commit` or `discard`.

        `base_offset` is -1 where the broker did not say it; the records' own offsets begin at 0.
        """
        found: dict[int, Counts] = {}
        for offset, timestamp_ms, record_key, value, headers in records:
            counts = found.setdefault(window_start(timestamp_ms, self._window_ms), Counts())
            counts.add(
                len(record_key or b"") + len(value or b""),
                digest(timestamp_ms, record_key, value, headers),
                base_offset + offset if base_offset >= 0 else -1,
                is_late=timestamp_ms < self.low_time_ms,
            )
        for start, counts in found.items():
            window = WindowKey(key, start)
            if is_pending:
                self._pending.setdefault(window, Counts()).merge(counts)
            else:
                self._merge(window, counts)

    def _merge(self, window: WindowKey, counts: Counts) -> None:
        entry = self._entries.pop(window, None)
        if entry is None:
            self._make_room(1)
            entry = _Entry(self._parts)
        entry.counts.merge(counts)
        entry.is_due = True
        self._entries[window] = entry  # the one that changed last is the last to leave
        self.count += counts.count

    def _make_room(self, windows: int) -> None:
        while len(self._entries) + windows > self._windows_max:
            window = next((one for one, entry in self._entries.items() if not entry.is_due), None)
            if window is None:
                window = next(iter(self._entries))
                self.dropped += self._entries[window].counts.count
            del self._entries[window]
            self._parts += 1  # the next entry of that window does not replace what was published

    # --- transactions ---------------------------------------------------------------------------------------------

    def with_pending(self) -> Iterator[tuple[WindowKey, int, Counts]]:
        """The windows that the open transaction changes: (window, part, counts) as they are once it is committed."""
        for window, counts in self._pending.items():
            entry = self._entries.get(window)
            summed = Counts()
            if entry is not None:
                summed.merge(entry.counts)
            summed.merge(counts)
            yield window, self._parts if entry is None else entry.part, summed

    def commit(self) -> None:
        """The transaction is committed, and its reports with it."""
        for window, counts in self._pending.items():
            entry = self._entries.pop(window, None) or _Entry(self._parts)
            entry.counts.merge(counts)
            entry.is_due = False
            self._entries[window] = entry
            self.count += counts.count
        self._pending.clear()
        self._make_room(0)

    def discard(self) -> None:
        """The transaction is aborted."""
        self._pending.clear()

    # --- reporting ------------------------------------------------------------------------------------------------

    def due(self) -> list[tuple[WindowKey, int, Counts]]:
        """Copies of what has changed since it was published: (window, part, counts)."""
        found = []
        for window, entry in self._entries.items():
            if entry.is_due:
                copy = Counts()
                copy.merge(entry.counts)
                found.append((window, entry.part, copy))
        return found

    def mark_published(self, reports: Iterable[tuple[WindowKey, int, Counts]]) -> None:
        """These were written; what has changed since stays due."""
        for window, part, counts in reports:
            entry = self._entries.get(window)
            if entry is not None and entry.part == part and entry.counts.count == counts.count:
                entry.is_due = False
