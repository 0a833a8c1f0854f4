"""The groups of one shard by id, and which protocol each is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.group import Group
from odradek.foundation.errors import GroupIdNotFound

if TYPE_CHECKING:
    from odradek.broker.groups.share.group import ShareGroup
    from odradek.broker.groups.streams.group import StreamsGroup


class GroupTable(dict[str, Group]):
    """Groups by id."""

    def missing(self, group_id: str, kind: str) -> GroupIdNotFound:
        """The error for a group that does not exist, or is not of this kind."""
        return GroupIdNotFound(
            f"Group {group_id} {f'is not a {kind} group' if group_id in self else 'not found'}."
        )

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group if it is a classic one."""
        group = self.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group if it is a consumer group."""
        group = self.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def streams(self, group_id: str) -> StreamsGroup | None:
        """The group if it is a Streams group. Its module is loaded by the first one."""
        group = self.get(group_id)
        return cast("StreamsGroup", group) if group is not None and group.kind == "streams" else None

    def share(self, group_id: str) -> ShareGroup | None:
        """The group if it is a share group. Its module is loaded by the first one."""
        group = self.get(group_id)
        return cast("ShareGroup", group) if group is not None and group.kind == "share" else None
