"""Counts of dead letters by group, for a bounded number of groups: clients choose the names."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.foundation.limits import DEAD_LETTER_GROUPS_COUNTED_MAX


class GroupCounts:
    """Of one group: records written and refused for good, and requests that wrote and that failed."""

    __slots__ = ("failed_requests", "refused", "requests", "written")

    def __init__(self) -> None:
        self.written = 0
        self.refused = 0
        self.requests = 0
        self.failed_requests = 0


class DeadLetterCounts:
    """Of all groups of one broker."""

    def __init__(self) -> None:
        self._by_group: dict[str, GroupCounts] = {}

    def of(self, group_id: str) -> GroupCounts:
        """The counts of a group, which begin at 0."""
        found = self._by_group.get(group_id)
        if found is None:
            if len(self._by_group) >= DEAD_LETTER_GROUPS_COUNTED_MAX:
                del self._by_group[next(iter(self._by_group))]
            found = self._by_group[group_id] = GroupCounts()
        return found

    def __iter__(self) -> Iterator[tuple[str, GroupCounts]]:
        return iter(list(self._by_group.items()))
