"""A log directory of a broker is emptied while the broker serves: its replicas move to the broker's other directories.

The directory is cordoned first, so that no new replica is put there (KIP-1066). Then each replica moves (KIP-113), the
largest ones to where most bytes are free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.client.admin.brokers import CORDON_KEY, EVERY_DIRECTORY
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.logs import LogAdmin
from odradek.client.client import Client
from odradek.client.errors import raise_first
from odradek.client.results import AlterOperation, ConfigChange, LogDirectoryDescription, ResourceType
from odradek.foundation.errors import InvalidRequest, KafkaStorageError
from odradek.foundation.ids import TopicPartition

_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class DirectoryMove:
    """One replica, and the log directory to which it moves."""

    topic: str
    partition: int
    size_bytes: int
    to: str


@dataclass(frozen=True, slots=True)
class Emptying:
    """What is left in a log directory: replicas, those of them that move, and bytes that their copies lack."""

    replicas: int
    moving: int
    bytes_left: int


def plan_emptying(
    directories: Sequence[LogDirectoryDescription], path: str, *, onto: Collection[str] = ()
) -> list[DirectoryMove]:
    """Where each replica in `path` moves: to directories in `onto`, or to all others that are not cordoned.

    Raises InvalidRequest for a path that is none of these directories, or without another one to move to. Raises
    KafkaStorageError where the others have no room.
    """
    by_path = {one.path: one for one in directories}
    for wanted in (path, *onto):
        if wanted not in by_path:
            raise InvalidRequest(
                f"{wanted} is no log directory of this broker, which has {', '.join(sorted(by_path))}"
            )
    room = {
        one.path: one.usable_bytes
        for one in directories
        if one.path != path and one.error is None and (one.path in onto if onto else not one.is_cordoned)
    }
    if not room:
        raise InvalidRequest(f"the broker has no other log directory that takes the replicas of {path}")
    moves = []
    for key, size in sorted(by_path[path].replicas.items(), key=lambda item: (-item[1].size_bytes, item[0])):
        target = max(room, key=lambda one: room[one])
        # A broker that does not report the room of its disks says -1.
        if 0 <= room[target] < size.size_bytes:
            raise KafkaStorageError(
                f"{key.topic}-{key.partition} of {size.size_bytes} bytes does not fit: {target} has most room, "
                f"{room[target]} bytes besides what moves there"
            )
        room[target] -= size.size_bytes if room[target] >= 0 else 0
        moves.append(DirectoryMove(key.topic, key.partition, size.size_bytes, target))
    return moves


class DirectoryAdmin:
    """Empties log directories of brokers."""

    def __init__(self, client: Client) -> None:
        self._logs = LogAdmin(client)
        self._configs = ConfigAdmin(client)

    async def plan(self, broker_id: int, path: str, *, onto: Collection[str] = ()) -> list[DirectoryMove]:
        """What `empty` would move. Raises as `plan_emptying`."""
        return plan_emptying(await self._logs.describe_log_dirs_of(broker_id), path, onto=onto)

    async def empty(self, broker_id: int, path: str, *, onto: Collection[str] = ()) -> list[DirectoryMove]:
        """Cordon the directory, and begin to move its replicas. Raises as `plan_emptying`, and the first refusal."""
        await self.plan(broker_id, path, onto=onto)
        await self._cordon(broker_id, path)
        # Planned again: replicas may have come before the cordon.
        moves = await self.plan(broker_id, path, onto=onto)
        wanted = {TopicPartition(one.topic, one.partition): one.to for one in moves}
        if wanted:
            raise_first((await self._logs.alter_replica_log_dirs(broker_id, wanted)).values())
        return moves

    async def _cordon(self, broker_id: int, path: str) -> None:
        name = str(broker_id)
        entries = await self._configs.describe(ResourceType.BROKER, name, keys=[CORDON_KEY])
        cordoned = {one.strip() for entry in entries for one in (entry.value or "").split(",")}
        if not cordoned.isdisjoint((EVERY_DIRECTORY, path)):
            return
        change = ConfigChange(CORDON_KEY, path, AlterOperation.APPEND)
        await self._configs.alter_all(ResourceType.BROKER, {name: [change]})

    async def progress(self, broker_id: int, path: str) -> Emptying:
        """What is left in the directory."""
        found = await self._logs.describe_log_dirs_of(broker_id)
        left = next((one.replicas for one in found if one.path == path), {})
        copies = {key: size for one in found for key, size in one.arriving.items()}
        return Emptying(
            replicas=len(left),
            moving=len(copies.keys() & left.keys()),
            bytes_left=sum(
                max(size.size_bytes - (copies[key].size_bytes if key in copies else 0), 0)
                for key, size in left.items()
            ),
        )

    async def wait_until_empty(self, broker_id: int, path: str) -> Emptying:
        """Return once nothing is left, or nothing moves any more at two looks in a row."""
        still = 0
        while True:
            progress = await self.progress(broker_id, path)
            still = 0 if progress.moving else still + 1
            if not progress.replicas or still > 1:
                return progress
            await asyncio.sleep(_LOOK_SECONDS)
