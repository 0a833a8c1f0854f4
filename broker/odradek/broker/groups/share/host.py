"""What a share group needs of its shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from odradek.broker.coordination.timers import TimerHost
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.group import Group

# The group itself, which stands above this module.
GroupT_contra = TypeVar("GroupT_contra", bound=Group, contravariant=True)


class ShareGroupHost(TimerHost, Protocol[GroupT_contra]):
    """The shard of a share group, as the group needs it."""

    def session_timeout_ms(self, group_id: str) -> int:
        """The time that a member may send no heartbeat: the group's own setting or the broker's."""
        ...

    def expire_members(self, group: GroupT_contra) -> None:
        """Fence the members whose time is up, and set the next `wake_at`."""
        ...

    def fence(self, group: GroupT_contra, member_ids: Sequence[str], on_written: OnWritten) -> None:
        """Remove the members; `on_written` is called once that is written, or with the error."""
        ...
