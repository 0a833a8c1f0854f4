"""Writes translated offsets to groups of the target, so that consumers continue there without a step of their own.

As KIP-545 has it, only a group that is EMPTY at the target, or unknown there, is written: consumers that run commit
their own offsets. No offset is lowered, since a group may have worked at the target already. An offset below the
target's first record is raised to it, which skips nothing: consumers would else reset, maybe to the end.

The coordinator refuses such commits for a group with members. So a consumer that joins between the look and the commit
is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LogAdmin
from odradek.client.admin.results import CommittedOffset
from odradek.client.client import Client
from odradek.foundation.errors import GroupIdNotFound, NonEmptyGroup
from odradek.foundation.ids import TopicPartition
from odradek.mirror.checkpoints import Translated

EMPTY: Final = "Empty"
_DEAD: Final = "Dead"


def offsets_to_write(
    translated: Translated,
    *,
    committed: Mapping[TopicPartition, CommittedOffset],
    log_starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets to commit for a group: those that the target lacks, and those that move on."""
    wanted: dict[TopicPartition, CommittedOffset] = {}
    for partition, checkpoint in translated.items():
        offset = max(checkpoint.target_offset, log_starts.get(partition, 0))
        known = committed.get(partition)
        if known is None or known.offset < offset:
            wanted[partition] = CommittedOffset(offset=offset, leader_epoch=-1, metadata=checkpoint.metadata)
    return wanted


class GroupSync:
    """Writes offsets of groups at one target."""

    def __init__(self, target: Client) -> None:
        self._groups = GroupAdmin(target)
        self._logs = LogAdmin(target)
        self.written = 0

    async def sync(self, group_id: str, translated: Translated) -> int:
        """Write what is missing or behind. Returns how many offsets; 0 for a group with members."""
        if not translated or not await self._is_idle(group_id):
            return 0
        committed = await self._groups.offsets(group_id, translated)
        wanted = offsets_to_write(translated, committed=committed, log_starts={})
        if not wanted:
            return 0
        log_starts = await self._logs.known_offsets_at(wanted, EARLIEST)
        wanted = offsets_to_write(
            {partition: translated[partition] for partition in wanted},
            committed=committed,
            log_starts=log_starts,
        )
        try:
            await self._groups.alter_offsets(group_id, wanted)
        except NonEmptyGroup:
            return 0
        self.written += len(wanted)
        return len(wanted)

    async def _is_idle(self, group_id: str) -> bool:
        try:
            return (await self._groups.describe(group_id)).state in (EMPTY, _DEAD)
        except GroupIdNotFound:
            return True
