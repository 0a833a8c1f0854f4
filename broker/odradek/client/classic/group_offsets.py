"""Where the offsets of a ZooKeeper group are: in ZooKeeper, with the coordinator, or with the program itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.classic.errors import OutOfRangeException
from odradek.client.classic.group_nodes import GroupNodes
from odradek.client.classic.properties import Properties
from odradek.client.client import Client
from odradek.client.errors import RETRIABLE_OR_LATE, ClientTimeout
from odradek.client.results import CommittedOffset, ListedOffset
from odradek.foundation.client_limits import CONSUMER_FIRST_OFFSETS_SECONDS_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition

_RESETS: Final = {"smallest": EARLIEST, "largest": LATEST}

StartOffsets = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]


class Starts(NamedTuple):
    """Where partitions begin, and why others have no offset yet."""

    offsets: dict[TopicPartition, int]
    failures: dict[TopicPartition, OdradekError]


class GroupOffsets:
    """Reads and writes them. An offset is that of the next message to read."""

    def __init__(
        self, properties: Properties, nodes: GroupNodes, client: Client, start_offsets: StartOffsets | None
    ) -> None:
        self._properties = properties
        self._group: str = properties["group.id"]
        self._nodes = nodes
        self._client = client
        self._logs = LogAdmin(client)
        self._groups = GroupAdmin(client)
        self._start_offsets = start_offsets

    async def starts(self, wanted: Collection[TopicPartition]) -> Starts:
        """Where to begin in each partition. Raises OutOfRangeException with autooffset.reset=error."""
        keys = list(wanted)
        found = await self._nodes.offsets(keys)
        if self._start_offsets is not None:
            found = dict(await asyncio.to_thread(self._start_offsets, keys))
        elif self._properties["offsets.storage"] == "kafka":
            committed = await self._groups.offsets(self._group, keys) if keys else {}
            found = {key: one.offset for key, one in committed.items()}
        missing = [key for key in keys if key not in found]
        if missing and self._properties["auto.offset.reset"] == "error":
            raise OutOfRangeException(
                f"group {self._group!r} has no offset for {missing[0]}, and autooffset.reset is error; commit one",
                missing[0],
            )
        first = await self.find_first(missing)
        known = {key: found[key] for key in keys if key in found}
        return Starts(known | first.offsets, first.failures)

    async def find_first(self, partitions: Collection[TopicPartition]) -> Starts:
        """Where partitions begin for which the group has no offset. Those whose leader does not
        answer soon, or that have none, have a failure that may be retried. They do not delay the others for long.
        """
        found = Starts({}, {})
        asking = {
            asyncio.ensure_future(self._list_first(some)): some for some in self._split_by_leader(partitions)
        }
        try:
            if asking:
                await asyncio.wait(asking, timeout=CONSUMER_FIRST_OFFSETS_SECONDS_MAX)
        finally:
            late = [task for task in asking if task.cancel()]
            await asyncio.gather(*late, return_exceptions=True)
        for task, some in asking.items():
            if task in late:
                found.failures.update(dict.fromkeys(some, ClientTimeout("the leader has not answered yet")))
                continue
            for key, one in task.result().items():
                if isinstance(one, OdradekError):
                    found.failures[key] = one
                else:
                    found.offsets[key] = one.offset
        return found

    def _split_by_leader(self, partitions: Collection[TopicPartition]) -> list[list[TopicPartition]]:
        """By the leaders that are known now."""
        cluster = self._client.cluster
        groups: dict[int, list[TopicPartition]] = {}
        for key in partitions:
            groups.setdefault(cluster.leader(key), []).append(key)
        return list(groups.values())

    async def _list_first(
        self, some: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ListedOffset | OdradekError]:
        reset = _RESETS[self._properties["auto.offset.reset"]]
        try:
            return await self._logs.list_offsets_each(dict.fromkeys(some, reset))
        except RETRIABLE_OR_LATE as failure:
            return dict.fromkeys(some, failure)  # no broker described the topics

    async def write(self, offsets: Mapping[TopicPartition, int], *, is_rewinding: bool) -> None:
        """Write offsets of owned partitions. Raises StoreError, or the coordinator's error."""
        if self._properties["offsets.storage"] == "kafka":
            committed = {key: CommittedOffset(offset) for key, offset in offsets.items()}
            await self._groups.alter_offsets(self._group, committed)
        else:
            await self._nodes.commit(offsets, is_rewinding=is_rewinding)
