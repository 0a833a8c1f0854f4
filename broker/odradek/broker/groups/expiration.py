"""The coordinator's periodic work: it forgets expired offsets and groups."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import ShardState
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.group import Group
from odradek.broker.groups.offsets import find_expired_offsets
from odradek.broker.groups.schema import OffsetKey
from odradek.broker.groups.state_machine import GroupStateMachine
from odradek.foundation.errors import OdradekError

GROUPS_PER_TURN: Final = 200


class Expiration:
    """Runs as long as the coordinator does."""

    def __init__(self, runtime: CoordinatorRuntime[GroupStateMachine], context: GroupContext) -> None:
        self._runtime = runtime
        self._context = context

    async def run(self) -> None:
        """Expire offsets every `offsets.retention.check.interval.ms`."""
        while True:
            await asyncio.sleep(self._context.settings.offsets_retention_check_interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> None:
        """Forget offsets whose retention is over, and groups without members and offsets."""
        for shard in self._runtime.list_loaded_shards():
            machine = shard.machine
            for number, group in enumerate(list(machine.groups.values())):
                if number % GROUPS_PER_TURN == 0:
                    await asyncio.sleep(0)
                read = group.unread_subscriptions()
                if read is not None and self._context.in_thread is not None:
                    await self._context.in_thread(read)
                if shard.state is ShardState.ACTIVE and machine.groups.get(group.group_id) is group:
                    shard.when_free(group.group_id, partial(self._expire, machine, group))

    def _expire(self, machine: GroupStateMachine, group: Group) -> None:
        if machine.groups.get(group.group_id) is not group:
            return
        offsets = machine.offsets.of_group(group.group_id)
        expired = find_expired_offsets(
            offsets,
            now_ms=self._context.clock.wall_ms(),
            retention_ms=self._context.settings.offsets_retention_minutes * 60_000,
            counted_from=group.retention_start(),
            is_subscribed_to=group.is_subscribed_to,
        )
        pending = machine.pending
        if pending.has_group(group.group_id):
            # A transaction may be about to commit what would expire.
            expired = [key for key in expired if not pending.has(OffsetKey(group.group_id, *key))]
        is_empty = len(expired) == len(offsets) and not pending.has_group(group.group_id)
        if is_empty and group.is_removable:
            machine.remove(group, _ignore)
        else:
            machine.remove_in_batches([(group.group_id, topic, partition) for topic, partition in expired])


def _ignore(_error: OdradekError | None) -> None:
    """A later round tries again."""
