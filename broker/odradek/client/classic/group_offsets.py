"""Where the offsets of a ZooKeeper group are: in ZooKeeper, with the coordinator, or with the program itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.results import CommittedOffset
from odradek.client.classic.errors import OutOfRangeException
from odradek.client.classic.group_nodes import GroupNodes
from odradek.client.classic.properties import Properties
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition

_RESETS: Final = {"smallest": EARLIEST, "largest": LATEST}

StartOffsets = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]


class GroupOffsets:
    """Reads and writes them. An offset is that of the next message to read."""

    def __init__(
        self, properties: Properties, nodes: GroupNodes, client: Client, start_offsets: StartOffsets | None
    ) -> None:
        self._properties = properties
        self._group: str = properties["group.id"]
        self._nodes = nodes
        self._logs = LogAdmin(client)
        self._groups = GroupAdmin(client)
        self._start_offsets = start_offsets

    async def starts(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin in each partition. Raises OutOfRangeException with autooffset.reset=error."""
        keys = list(wanted)
        found = await self._nodes.offsets(keys)
        if self._start_offsets is not None:
            found = dict(await asyncio.to_thread(self._start_offsets, keys))
        elif self._properties["offsets.storage"] == "kafka":
            committed = await self._groups.offsets(self._group, keys) if keys else {}
            found = {key: one.offset for key, one in committed.items()}
        missing = [key for key in keys if key not in found]
        reset = self._properties["auto.offset.reset"]
        if missing and reset == "error":
            raise OutOfRangeException(
                f"group {self._group!r} has no offset for {missing[0]}, and autooffset.reset is error; commit one",
                missing[0],
            )
        if missing:
            listed = await self._logs.list_offsets(dict.fromkeys(missing, _RESETS[reset]))
            found |= {key: one.offset for key, one in listed.items()}
        return {key: found[key] for key in keys}

    async def write(self, offsets: Mapping[TopicPartition, int], *, is_rewinding: bool) -> None:
        """Write offsets of owned partitions. Raises StoreError, or the coordinator's error."""
        if self._properties["offsets.storage"] == "kafka":
            committed = {key: CommittedOffset(offset) for key, offset in offsets.items()}
            await self._groups.alter_offsets(self._group, committed)
        else:
            await self._nodes.commit(offsets, is_rewinding=is_rewinding)
