"""The groups of one shard by id, and which protocol each is of."""

from __future__ import annotations

from odradek.groups.classic.group import ClassicGroup
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.group import Group


class GroupTable(dict[str, Group]):
    """Groups by id."""

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group if it is a classic one."""
        group = self.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group if it is a consumer group."""
        group = self.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None
