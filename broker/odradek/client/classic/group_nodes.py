"""A consumer's nodes in ZooKeeper: its registration, what it owns, and the group's offsets.

Every write names what it takes for granted. An owner node is created only while the consumer's own id node exists, in
one step. An offset is written only while both exist, and with the version that was read. So a consumer whose session is
over writes nothing, whatever it still believes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from odradek.client.classic import consumer_paths as paths
from odradek.client.classic.errors import ConsumerRebalanceFailedException, InvalidConfigException
from odradek.client.classic.known_registrations import KnownRegistrations
from odradek.client.classic.registrations import Registration, parse_registration
from odradek.foundation.ids import TopicPartition
from odradek.foundation.registry_errors import NodeExists, NoNode, VersionConflict
from odradek.metadata.registry.store import Check, Create, Put, Store, children_or_none, get_or_none

logger = logging.getLogger(__name__)


class GroupNodes:
    """The nodes of one consumer of one group. Calls raise StoreError when ZooKeeper does not answer."""

    def __init__(
        self,
        store: Store,
        group: str,
        consumer_id: str,
        *,
        is_excluding_internal: bool,
        known: KnownRegistrations | None = None,
    ) -> None:
        """`known` has what other consumers of the process have read."""
        self._store = store
        self._group = group
        self._id = consumer_id
        self._is_excluding_internal = is_excluding_internal
        self._id_path = paths.consumer_id(group, consumer_id)
        self._known = known or KnownRegistrations()
        self._warned: set[str] = set()
        self.blocked_by: str | None = None
        """The owner node of another consumer, which has prevented the last claim."""
        self._versions: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}

    # --- registration -----------------------------------------------------------------------------------------------

    async def register(self, own: Registration, *, timestamp_ms: int) -> None:
        """Create the id node in the present session. Raises ConsumerRebalanceFailedException if the id is taken."""
        await self._make(paths.ids(self._group))
        try:
            await self._store.create(self._id_path, own.pack_node(timestamp_ms=timestamp_ms), ephemeral=True)
        except NodeExists:
            if not await self.is_registered():
                raise ConsumerRebalanceFailedException(
                    f"consumer {self._id!r} of group {self._group!r} is registered by another session; "
                    "give each consumer another consumer.id, or none"
                ) from None

    async def is_registered(self) -> bool:
        """Whether the id node is there and of the present session."""
        node = await get_or_none(self._store, self._id_path)
        return node is not None and node.owner == self._store.session_id

    async def unregister(self) -> None:
        """Delete the id node, if it is of the present session."""
        if await self.is_registered():
            await self._store.delete(self._id_path)

    async def members(self) -> dict[str, Registration]:
        """The consumers of the group that can be read; another one is warned of once.

        Registrations never change, so only new ones are read.
        """
        names = await children_or_none(self._store, paths.ids(self._group))
        read: dict[str, Registration | None] = {}
        async with self._known.reading():
            new = self._known.missing(names)
            nodes = await self._store.get_many([paths.consumer_id(self._group, name) for name in new])
            for name, node in zip(new, nodes, strict=True):
                if node is not None:
                    read[name] = self._parse_node(name, node.data)
                    self._known.add(name, read[name])
        found = {name: read[name] if name in read else self._known.get(name) for name in names}
        self._known.keep(names)
        self._warned.intersection_update(names)
        return {name: member for name, member in found.items() if member is not None}

    def _parse_node(self, name: str, data: bytes) -> Registration | None:
        try:
            return parse_registration(data, is_excluding_internal=self._is_excluding_internal)
        except InvalidConfigException as failure:
            log = logger.debug if name in self._warned else logger.warning
            self._warned.add(name)
            log(
                "group %s: consumer %s is left out, since its id node cannot be read: %s",
                self._group,
                name,
                failure,
            )
            return None

    # --- topics -------------------------------------------------------------------------------------------------------

    async def topics(self) -> list[str]:
        return await children_or_none(self._store, paths.TOPICS)

    async def partitions(self, topics: Collection[str]) -> dict[str, list[int]]:
        """The partitions of those of `topics` that exist."""
        names = sorted(topics)
        nodes = await self._store.get_many([paths.topic(name) for name in names])
        found: dict[str, list[int]] = {}
        for name, node in zip(names, nodes, strict=True):
            if node is not None:
                try:
                    content: Any = json.loads(node.data)
                    found[name] = sorted(map(int, content["partitions"]))
                except (ValueError, TypeError, KeyError) as failure:
                    logger.warning("topic %s is left out, since its node cannot be read: %s", name, failure)
        return found

    # --- owners -------------------------------------------------------------------------------------------------------

    async def claim(self, threads: Mapping[TopicPartition, str]) -> bool:
        """Own all of these partitions, or none. False when another consumer still owns one: `blocked_by`."""
        self.blocked_by = None
        if not threads:
            return True
        for topic in sorted({key.topic for key in threads}):
            await self._make(paths.owners(self._group, topic))
        creates = [
            Create(paths.owner(self._group, key), thread.encode(), ephemeral=True)
            for key, thread in threads.items()
        ]
        try:
            await self._store.multi([Check(self._id_path, 0), *creates])
        except NodeExists as failure:
            number = failure.operation
            self.blocked_by = creates[number - 1].path if number else None
            logger.info(
                "group %s: %s is still owned by another consumer", self._group, self.blocked_by or "one"
            )
            return False
        except NoNode:
            return False  # registered again by then
        return True

    async def release(self, partitions: Collection[TopicPartition]) -> None:
        """Give up partitions of which the present session owns the nodes."""
        keys = list(partitions)
        nodes = await self._store.get_many([paths.owner(self._group, key) for key in keys])
        for key, node in zip(keys, nodes, strict=True):
            if node is not None and node.owner == self._store.session_id:
                try:
                    await self._store.delete(paths.owner(self._group, key), version=node.version)
                except (NoNode, VersionConflict) as failure:
                    logger.info("group %s: partition %s was released before: %s", self._group, key, failure)

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets; partitions without one are absent. Raises ConsumerRebalanceFailedException for text that
        is no number.
        """
        nodes = await self._store.get_many([paths.offset(self._group, key) for key in partitions])
        found: dict[TopicPartition, int] = {}
        self._versions.clear()
        self._written.clear()
        for key, node in zip(partitions, nodes, strict=True):
            if node is None:
                continue
            text = node.data.decode(errors="replace")
            if not text.isdecimal():
                raise ConsumerRebalanceFailedException(
                    f"{paths.offset(self._group, key)} holds {text[:100]!r}, which is no offset; write a number there"
                )
            found[key] = self._written[key] = int(text)
            self._versions[key] = node.version
        return found

    async def commit(self, offsets: Mapping[TopicPartition, int], *, is_rewinding: bool = False) -> None:
        """Write the offsets of owned partitions. None is lowered unless `is_rewinding`. What the consumer owns no
        longer is left as it is.
        """
        changed = {
            key: offset
            for key, offset in offsets.items()
            if offset > self._written.get(key, -1) or (is_rewinding and offset != self._written.get(key))
        }
        for topic in sorted({key.topic for key in changed if key not in self._versions}):
            await self._make(paths.offsets(self._group, topic))
        outcomes = await asyncio.gather(
            *(self._commit(key, offset, is_rewinding) for key, offset in changed.items()),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _commit(self, key: TopicPartition, offset: int, is_rewinding: bool) -> None:
        path, owner = paths.offset(self._group, key), paths.owner(self._group, key)
        data = b"%d" % offset
        while True:
            version = self._versions.get(key)
            write = Create(path, data) if version is None else Put(path, data, version)
            try:
                await self._store.multi([Check(self._id_path, 0), Check(owner, 0), write])
            except (NodeExists, VersionConflict, NoNode) as failure:
                if (failure.operation or 0) < 2:
                    logger.warning(
                        "group %s: partition %s is owned no longer, and not committed", self._group, key
                    )
                    return
                node = await get_or_none(self._store, path)
                self._versions.pop(key, None)
                if node is not None:
                    self._versions[key] = node.version
                    if not is_rewinding and node.data.isdigit() and int(node.data) >= offset:
                        self._written[key] = int(node.data)
                        return
            else:
                self._versions[key] = 0 if version is None else version + 1
                self._written[key] = offset
                return

    async def _make(self, path: str) -> None:
        """Create a persistent node and those above it."""
        steps = path.split("/")[1:]
        for count in range(1, len(steps) + 1):
            part = "/" + "/".join(steps[:count])
            if not await self._store.exists(part):
                try:
                    await self._store.create(part)
                except NodeExists:
                    continue
