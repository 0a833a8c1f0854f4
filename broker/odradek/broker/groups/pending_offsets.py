"""Offsets that open transactions have written to a group, until a marker commits or drops them (KIP-98).

Many producers may have one for the same partition. The record that is last in the log wins, not the marker: the cleaner
of a compacted log keeps the same one. So a pending offset that a later record has replaced
stays pending, and its commit changes nothing. Live changes and the replay of a log call this in the log's order.

What it leaves out: committed offsets (`offsets`).
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.groups.schema import OffsetAndMetadata, OffsetKey


class _Pending:
    __slots__ = ("committed", "is_replaced", "order")

    def __init__(self, committed: OffsetAndMetadata, order: int) -> None:
        self.committed = committed
        self.order = order
        self.is_replaced = False


class PendingOffsets:
    """The pending offsets of one partition of the offsets topic."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, _Pending]] = {}
        self._by_key: dict[OffsetKey, dict[int, _Pending]] = {}
        # How many keys of each group have one.
        self._by_group: dict[str, int] = {}
        self._order = 0

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __len__(self) -> int:
        return len(self._by_key)

    # --- the log's records ------------------------------------------------------------------------------------------

    def put(self, producer_id: int, key: OffsetKey, committed: OffsetAndMetadata) -> None:
        """A transaction has written an offset."""
        self._order += 1
        pending = _Pending(committed, self._order)
        self._by_producer.setdefault(producer_id, {})[key] = pending
        producers = self._by_key.get(key)
        if producers is None:
            producers = self._by_key[key] = {}
            self._by_group[key.group_id] = self._by_group.get(key.group_id, 0) + 1
        producers[producer_id] = pending

    def mark_replaced(self, key: OffsetKey) -> None:
        """An offset was committed for the key outside of transactions: its record is behind those that are pending."""
        for pending in self._by_key.get(key, {}).values():
            pending.is_replaced = True

    def drop(self, key: OffsetKey) -> None:
        """A tombstone was written for the key: what is pending for it counts no more."""
        for producer_id in self._by_key.get(key, {}):
            self._drop_of_producer(producer_id, key)
        self._drop_key(key)

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[OffsetKey, OffsetAndMetadata]]:
        """A marker of the producer was written. Returns the offsets that are committed by it."""
        committed: list[tuple[OffsetKey, OffsetAndMetadata]] = []
        for key, ended in self._by_producer.pop(producer_id, {}).items():
            producers = self._by_key[key]
            del producers[producer_id]
            if is_commit and not ended.is_replaced:
                committed.append((key, ended.committed))
                for other in producers.values():
                    other.is_replaced |= other.order < ended.order
            if not producers:
                self._drop_key(key)
        return committed

    def _drop_of_producer(self, producer_id: int, key: OffsetKey) -> None:
        pending = self._by_producer[producer_id]
        del pending[key]
        if not pending:
            del self._by_producer[producer_id]

    def _drop_key(self, key: OffsetKey) -> None:
        if self._by_key.pop(key, None) is None:
            return
        left = self._by_group[key.group_id] - 1
        if left:
            self._by_group[key.group_id] = left
        else:
            del self._by_group[key.group_id]

    # --- questions --------------------------------------------------------------------------------------------------

    def has_group(self, group_id: str) -> bool:
        """Whether any offset of the group is pending: neither it nor the group may expire then."""
        return group_id in self._by_group

    def has(self, key: OffsetKey) -> bool:
        """Whether an offset for the key is pending: the committed one is not stable then."""
        return key in self._by_key

    def of_group(self, group_id: str) -> Iterator[tuple[str, int]]:
        """(topic, partition) of the group's pending offsets, in no order."""
        if group_id in self._by_group:
            yield from [(key.topic, key.partition) for key in self._by_key if key.group_id == group_id]

    def groups(self) -> list[str]:
        return list(self._by_group)

    def list_pending(self) -> list[tuple[OffsetKey, OffsetAndMetadata]]:
        return [
            (key, pending.committed)
            for key, producers in self._by_key.items()
            for pending in producers.values()
        ]
