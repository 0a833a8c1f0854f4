"""Where a change of a consumer or Streams group is planned: in this turn of the loop, or in the thread for long work.

A change is planned on a copy of the group, which takes some microseconds for each topic name and partition. That of a
group with many of them would hold up all other requests. Until then the group's own requests wait, as while a change is
written. What was planned so is not read again from its records: the group takes the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.conversion import GroupParts
from odradek.broker.groups.group import Group
from odradek.foundation.errors import RequestError
from odradek.foundation.turn_limits import GROUP_NAMES_PLANNED_AT_ONCE_MAX

Planned = TypeVar("Planned")


class PlannedGroup(Group, Protocol):
    """A group whose change is planned on a copy."""

    @property
    def size(self) -> int:
        """The names and numbers that a copy of it has."""
        ...

    def take(self, changed: Self, /) -> None:
        """Have the records of a changed copy, which nothing else uses any more."""
        ...


GroupT = TypeVar("GroupT", bound=PlannedGroup)
GroupT_co = TypeVar("GroupT_co", bound=PlannedGroup, covariant=True)


class PlannedUpdate(Protocol[GroupT_co]):
    """A changed copy of a group, and the records of the change."""

    @property
    def group(self) -> GroupT_co: ...

    @property
    def records(self) -> list[EncodedRecord]: ...


class Planning:
    """The plans of the consumer groups, or of the Streams groups, of one shard."""

    def __init__(self, parts: GroupParts) -> None:
        self._groups, self._shard, self._context = parts

    def plan(
        self,
        group: PlannedGroup,
        names: int,
        plan: Callable[[], Planned],
        finish: Callable[[Planned], None],
        refuse: Callable[[RequestError], object],
    ) -> None:
        """Call `finish` with what `plan` returns, now or later. `plan` only reads the group.

        `names` are topics and partitions that the change adds to those of the group. Errors are raised, or `refuse`
        gets them later. The caller is within `Shard.when_serving`.
        """
        in_thread = self._context.in_thread
        if in_thread is None or names + group.size <= GROUP_NAMES_PLANNED_AT_ONCE_MAX:
            finish(plan())
        else:
            self._shard.prepare(group.group_id, in_thread(plan), finish, refuse)

    def write(self, group: GroupT, update: PlannedUpdate[GroupT], on_written: OnWritten) -> None:
        """Write a change of a group that is one already."""

        def take_over() -> None:
            known = self._groups.get(group.group_id)
            if known is not group:
                if known is not None:
                    self._shard.stop_timer(known.timed)
                self._groups[group.group_id] = group
            group.take(update.group)

        is_large = update.group.size > GROUP_NAMES_PLANNED_AT_ONCE_MAX
        self._shard.write(group.group_id, update.records, on_written, apply=take_over if is_large else None)
