"""Groups whose consumers share partitions through ZooKeeper: what administrators and metrics see of them.

    /consumers/GROUP/ids/CONSUMER             what a consumer subscribes to
    /consumers/GROUP/owners/TOPIC/PARTITION   the consumer's thread that owns the partition
    /consumers/GROUP/offsets/TOPIC/PARTITION  the next offset to read

No broker coordinates these groups: their consumers write the nodes (`odradek.classic`), and this module reads them.
They look like classic groups, but for their protocol type. A request reads the registry at once, for a limited time.
Metrics come from what was read in the background, as long as someone asks for them.

Clients decide on the names, content and access lists of their nodes, and may be anyone whom ZooKeeper admits. What
brokers may not read is left out, and hides nothing else. A filter is never matched here: an expression of a stranger
may take for ever.

Left out: changes. To move a group or to delete it is a matter of its consumers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.broker.groups.administration import GroupOverview, GroupSummary, MemberSummary
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.client.classic.errors import InvalidConfigException
from odradek.client.classic.registrations import parse_registration
from odradek.foundation.clock import Clock
from odradek.foundation.errors import CoordinatorNotAvailable, GroupIdNotFound
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import (
    ZOOKEEPER_GROUP_PARTITIONS_MAX,
    ZOOKEEPER_GROUPS_MAX,
    ZOOKEEPER_GROUPS_PAUSE_SECONDS,
    ZOOKEEPER_GROUPS_READ_SECONDS_MAX,
    ZOOKEEPER_GROUPS_UNASKED_SECONDS_MAX,
)
from odradek.foundation.registry_errors import StoreAccessDenied, StoreError
from odradek.foundation.tasks import TaskOwner
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.registry.store import Node, Store, children_or_none
from odradek.wire.protocol.consumer import build_assignment, build_subscription

if TYPE_CHECKING:
    from odradek.client.classic.registrations import Registration

logger = logging.getLogger(__name__)

K = TypeVar("K")

KIND: Final = "zookeeper"
"""The type of such a group, and its protocol type."""
ASSIGNOR: Final = "range"
_STABLE: Final = "Stable"
_EMPTY: Final = "Empty"
_CONSUMERS: Final = "/consumers"
_STATIC: Final = "static"
_PARTITION_DIGITS_MAX: Final = 9
_OFFSET_DIGITS_MAX: Final = 18


class ZookeeperGroups:
    """Reads the groups of one registry. Metrics are of the partitions that this broker leads."""

    def __init__(self, store: Store, *, broker_id: int, images: ImageHolder, clock: Clock) -> None:
        self._store = store
        self._broker_id = broker_id
        self._images = images
        self._clock = clock
        self._tasks = TaskOwner("zookeeper groups")
        self._reading: asyncio.Task[None] | None = None
        self._asked_at = 0.0
        self._committed: Mapping[tuple[str, TopicPartition], int] = {}

    async def stop(self) -> None:
        """End the reading in the background."""
        await self._tasks.close()

    # --- requests ---------------------------------------------------------------------------------------------------

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupOverview]:
        """The groups; none at any broker but the first of those that are alive, since no broker coordinates them.

        While the registry does not answer there are none.
        """
        wanted_states = {state.lower() for state in states}
        if (types and KIND not in {one.lower() for one in types}) or not self._is_first:
            return []
        try:
            async with asyncio.timeout(ZOOKEEPER_GROUPS_READ_SECONDS_MAX):
                names = (await _readable_children(self._store, _CONSUMERS))[:ZOOKEEPER_GROUPS_MAX]
                found_states = await asyncio.gather(*(self._state(name) for name in names))
        except (StoreError, TimeoutError) as failure:
            logger.warning(
                "the groups in ZooKeeper are not listed: the registry does not answer (%s)", failure
            )
            return []
        return [
            GroupOverview(name, KIND, state, KIND)
            for name, state in zip(names, found_states, strict=True)
            if not wanted_states or state.lower() in wanted_states
        ]

    @property
    def _is_first(self) -> bool:
        return self._broker_id == min(self._images.current.brokers, default=self._broker_id)

    async def _state(self, group_id: str) -> str:
        return _STABLE if await _readable_children(self._store, f"{_CONSUMERS}/{group_id}/ids") else _EMPTY

    async def describe(self, group_id: str) -> GroupSummary:
        """A group with its consumers and what they own. Raises GroupIdNotFound, CoordinatorNotAvailable."""
        if not _is_name(group_id):
            raise GroupIdNotFound(f"Group {group_id} not found.")
        try:
            async with asyncio.timeout(ZOOKEEPER_GROUPS_READ_SECONDS_MAX):
                if not await self._store.exists(f"{_CONSUMERS}/{group_id}"):
                    raise GroupIdNotFound(f"Group {group_id} not found.")
                members = await self._members(group_id)
                owners = await self._owners(group_id)
        except (StoreError, TimeoutError) as failure:
            raise CoordinatorNotAvailable(
                f"the registry, which would have the group {group_id!r}, does not answer ({failure}); try again"
            ) from failure
        topics = self._images.current.topics
        described = [
            _describe_member(group_id, name, member, owners.get(name, {}), topics)
            for name, member in members.items()
        ]
        return GroupSummary(_STABLE if members else _EMPTY, KIND, ASSIGNOR, described)

    async def offsets(self, group_id: str) -> dict[tuple[str, int], OffsetAndMetadata]:
        """All offsets of a group; none while the registry does not answer."""
        if not _is_name(group_id):
            return {}
        try:
            async with asyncio.timeout(ZOOKEEPER_GROUPS_READ_SECONDS_MAX):
                keys = await self._partitions(f"{_CONSUMERS}/{group_id}/offsets")
                found = await self._offsets([(group_id, key) for key in keys])
        except (StoreError, TimeoutError) as failure:
            logger.warning("the offsets of group %s in ZooKeeper are not known: %s", group_id, failure)
            return {}
        return {(key.topic, key.partition): OffsetAndMetadata(offset) for (_, key), offset in found.items()}

    # --- metrics ----------------------------------------------------------------------------------------------------

    def list_committed(self) -> Iterable[tuple[str, str, int, int]]:
        """(group, topic, partition, offset) of the partitions led here, as they were read last.

        To ask keeps the reading in the background going. The first answer is empty.
        """
        self._asked_at = self._clock.monotonic_seconds()
        if self._reading is None or self._reading.done():
            self._reading = self._tasks.start(self._read_on(), name="lag")
        return [(group, key.topic, key.partition, offset) for (group, key), offset in self._committed.items()]

    async def _read_on(self) -> None:
        while self._clock.monotonic_seconds() - self._asked_at < ZOOKEEPER_GROUPS_UNASKED_SECONDS_MAX:
            try:
                self._committed = await self._offsets(await self._find_led_partitions())
            except StoreError as failure:
                # What was read before would become a lag that grows by itself.
                self._committed = {}
                logger.debug("the groups in ZooKeeper cannot be read: %s", failure)
            await asyncio.sleep(ZOOKEEPER_GROUPS_PAUSE_SECONDS)
        self._committed = {}

    async def _find_led_partitions(self) -> list[tuple[str, TopicPartition]]:
        """The partitions led here that groups have offsets of."""
        wanted: list[tuple[str, TopicPartition]] = []
        groups = await _readable_children(self._store, _CONSUMERS)
        for group_id in groups[:ZOOKEEPER_GROUPS_MAX]:
            for key in await self._partitions(f"{_CONSUMERS}/{group_id}/offsets", is_led=True):
                if len(wanted) == ZOOKEEPER_GROUP_PARTITIONS_MAX:
                    logger.warning(
                        "the lag of groups in ZooKeeper is shown for %d partitions; group %s and later ones have more",
                        len(wanted),
                        group_id,
                    )
                    return wanted
                wanted.append((group_id, key))
        return wanted

    # --- nodes ------------------------------------------------------------------------------------------------------

    async def _members(self, group_id: str) -> dict[str, Registration | None]:
        """The consumers; None for one whose node cannot be read."""
        folder = f"{_CONSUMERS}/{group_id}/ids"
        names = await _readable_children(self._store, folder)
        found: dict[str, Registration | None] = {}
        for name, data in (await self._read({name: f"{folder}/{name}" for name in names})).items():
            try:
                found[name] = parse_registration(data)
            except InvalidConfigException:
                found[name] = None
        return found

    async def _owners(self, group_id: str) -> dict[str, dict[str, list[int]]]:
        """The partitions that each consumer owns, by topic."""
        folder = f"{_CONSUMERS}/{group_id}/owners"
        keys = await self._partitions(folder)
        owned: dict[str, dict[str, list[int]]] = {}
        found = await self._read({key: f"{folder}/{key.topic}/{key.partition}" for key in keys})
        for (topic, number), data in found.items():
            consumer = data.decode(errors="replace").rpartition("-")[0]
            owned.setdefault(consumer, {}).setdefault(topic, []).append(number)
        return owned

    async def _partitions(self, folder: str, *, is_led: bool = False) -> list[TopicPartition]:
        """The partitions that have nodes below a folder."""
        image = self._images.current
        keys: list[TopicPartition] = []
        for topic in await _readable_children(self._store, folder):
            known = image.topics.get(topic)
            if is_led and known is None:
                continue
            for name in await _readable_children(self._store, f"{folder}/{topic}"):
                if not _is_number(name.encode(), _PARTITION_DIGITS_MAX):
                    continue
                number = int(name)
                if is_led and known is not None:
                    has_it = number < len(known.partitions)
                    if not has_it or known.partitions[number].leader != self._broker_id:
                        continue
                keys.append(TopicPartition(topic, number))
        return sorted(keys)

    async def _offsets(
        self, keys: Sequence[tuple[str, TopicPartition]]
    ) -> dict[tuple[str, TopicPartition], int]:
        """The offsets of groups; without a node, or with one that holds no number, there is none."""
        found = await self._read(
            {(group, key): f"{_CONSUMERS}/{group}/offsets/{key.topic}/{key.partition}" for group, key in keys}
        )
        return {key: int(data) for key, data in found.items() if _is_number(data, _OFFSET_DIGITS_MAX)}

    async def _read(self, paths: Mapping[K, str]) -> dict[K, bytes]:
        """The data of the nodes that exist and may be read."""
        nodes = await _readable_nodes(self._store, list(paths.values()))
        return {key: node.data for key, node in zip(paths, nodes, strict=True) if node is not None}


async def _readable_children(store: Store, path: str) -> list[str]:
    """The children's names; none for a node that is missing or may not be read."""
    try:
        return await children_or_none(store, path)
    except StoreAccessDenied:
        return []


async def _readable_nodes(store: Store, paths: Sequence[str]) -> list[Node | None]:
    """The nodes; None for one that is missing or may not be read. One request says nothing of which that is."""
    try:
        return await store.get_many(paths)
    except StoreAccessDenied:
        if len(paths) == 1:
            return [None]
        half = len(paths) // 2
        return [
            *await _readable_nodes(store, paths[:half]),
            *await _readable_nodes(store, paths[half:]),
        ]


def _is_number(text: bytes, digits_max: int) -> bool:
    """Whether it is a number; Python reads none of thousands of digits."""
    return text.isdigit() and len(text) <= digits_max


def _is_name(group_id: str) -> bool:
    return bool(group_id) and "/" not in group_id and group_id not in (".", "..")


def _describe_member(
    group_id: str,
    consumer_id: str,
    registration: Registration | None,
    owned: Mapping[str, Sequence[int]],
    topics: Iterable[str],
) -> MemberSummary:
    name = consumer_id.removeprefix(f"{group_id}_")
    # HOST-MILLISECONDS-RANDOM, unless the program has chosen a name.
    host, *rest = name.rsplit("-", 2)
    # Of a filter the topics of what the consumer owns.
    subscribed = set(owned) if registration is not None and registration.pattern != _STATIC else set()
    if registration is not None and registration.pattern == _STATIC:
        subscribed = {one for one in topics if one in registration.subscription}
    return MemberSummary(
        member_id=consumer_id,
        instance_id=None,
        client_id=name,
        client_host=host if len(rest) == 2 else "",
        metadata=build_subscription(sorted(subscribed)),
        assignment=build_assignment((topic, sorted(numbers)) for topic, numbers in sorted(owned.items())),
    )
