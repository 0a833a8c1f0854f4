"""A group coordinator alone: a log in memory, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

from odradek.cluster.image import ClusterImage, ImageHolder, PartitionImage, TopicImage
from odradek.groups.classic.members import JoinRequest, JoinResult, SyncRequest, SyncResult
from odradek.groups.coordinator import GroupCoordinator
from tests.support import loop
from tests.support.loop import LoopClock
from tests.support.offsets_log import MemoryOffsetsLog

T = TypeVar("T")


def settings(**changes: Any) -> SimpleNamespace:
    """Kafka's defaults, with `changes`."""
    values: dict[str, Any] = {
        "group_min_session_timeout_ms": 6000,
        "group_max_session_timeout_ms": 1_800_000,
        "group_initial_rebalance_delay_ms": 3000,
        "group_max_size": 2**31 - 1,
        "group_consumer_assignors": ("uniform", "range"),
        "group_consumer_max_size": 2**31 - 1,
        "group_consumer_session_timeout_ms": 45_000,
        "group_consumer_heartbeat_interval_ms": 5000,
        "group_consumer_migration_policy": "bidirectional",
        "group_coordinator_rebalance_protocols": ("classic", "consumer", "streams"),
        "offset_metadata_max_bytes": 4096,
        "offsets_retention_minutes": 10_080,
        "offsets_retention_check_interval_ms": 600_000,
        "offsets_load_buffer_size": 5 << 20,
        "offsets_topic_compression_codec": 0,
        "offsets_commit_timeout_ms": 5000,
    }
    assert changes.keys() <= values.keys(), f"unknown settings {changes.keys() - values.keys()}"
    return SimpleNamespace(**{**values, **changes})


def topic_id(name: str) -> UUID:
    """The id that `image` gives a topic."""
    return UUID(bytes=name.encode().ljust(16, b"\1")[:16])


def image(topics: Mapping[str, int]) -> ClusterImage:
    """A cluster of these topics with so many partitions each."""
    made = {
        name: TopicImage(
            name=name,
            id=topic_id(name),
            partitions=tuple(
                PartitionImage(
                    partition=index, leader=0, leader_epoch=0, replicas=(0,), isr=(0,), partition_epoch=0
                )
                for index in range(count)
            ),
            is_internal=False,
        )
        for name, count in topics.items()
    }
    return ClusterImage(topics=made, topics_by_id={topic.id: topic for topic in made.values()})


class GroupWorld:
    """One coordinator over a log that outlives it."""

    def __init__(
        self, *, topics: Mapping[str, int] | None = None, partitions: int = 2, **changes: Any
    ) -> None:
        self.log = MemoryOffsetsLog(partitions)
        self.images = ImageHolder(image(topics or {}))
        self.clock = LoopClock()
        self.settings: Any = settings(**changes)
        self._ids = 0
        self.groups = self._coordinator()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.log, clock=self.clock, settings=self.settings, images=self.images, new_id=self._next_id
        )

    def _next_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    def set_topics(self, topics: Mapping[str, int]) -> None:
        self.images.replace(image(topics))

    async def restart(self) -> None:
        """Stop the coordinator and let another one load what it left."""
        await self.groups.stop()
        self.groups = self._coordinator()
        self.groups.start()
        await self.groups.runtime.loaded()

    # --- members of the classic protocol --------------------------------------------------------------------

    def join(self, group_id: str = "g", member_id: str = "", **fields: Any) -> asyncio.Task[JoinResult]:
        """Begin to join; the task ends with the answer."""
        request = join_request(member_id, **fields)
        result = self.groups.join(group_id, request)
        return asyncio.ensure_future(result_of(result))

    def sync(
        self,
        joined: JoinResult,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_id: str = "g",
        **fields: Any,
    ) -> asyncio.Task[SyncResult]:
        """Begin to sync as the member that got `joined`."""
        values: dict[str, Any] = {
            "member_id": joined.member_id,
            "instance_id": None,
            "generation": joined.generation,
            "protocol_type": joined.protocol_type,
            "protocol": joined.protocol,
            "assignments": assignments or {},
            **fields,
        }
        return asyncio.ensure_future(result_of(self.groups.sync(group_id, SyncRequest(**values))))

    async def member(self, group_id: str = "g", **fields: Any) -> JoinResult:
        """A member alone in a new group, synced."""
        joined = await self.join(group_id, **{"requires_known_member_id": False, **fields})
        assert joined.error is None, joined.error
        synced = await self.sync(
            joined,
            {member: b"assigned-" + member.encode() for member, _, _ in joined.members},
            group_id=group_id,
            instance_id=fields.get("instance_id"),
        )
        assert synced.error is None, synced.error
        return joined


def join_request(member_id: str = "", **fields: Any) -> JoinRequest:
    """A join with ordinary values; `topics` makes the subscription of its protocols."""
    from odradek.protocol.consumer import build_subscription

    topics = fields.pop("topics", ("t",))
    metadata = build_subscription(topics, version=1)
    values: dict[str, Any] = {
        "member_id": member_id,
        "instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", metadata),),
        "requires_known_member_id": not member_id and not fields.get("instance_id"),
        "supports_skipping_assignment": True,
        **fields,
    }
    return JoinRequest(**values)


async def result_of(result: T | Awaitable[T]) -> T:
    """The result of a call that may have answered at once."""
    if isinstance(result, Awaitable):
        return await result
    return result


def in_world(story: Callable[[GroupWorld], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """Run `story` with a started coordinator, on virtual time."""

    async def run() -> None:
        world = GroupWorld(**changes)
        world.groups.start()
        await world.groups.runtime.loaded()
        try:
            await story(world)
        finally:
            await world.groups.stop()

    loop.run(run())


async def turns(count: int = 5) -> None:
    """Let the loop go round a few times without letting time pass."""
    for _ in range(count):
        await asyncio.sleep(0)


def done(task: asyncio.Task[T]) -> T:
    """The result of a task that must have ended."""
    assert task.done(), "the answer should be there by now"
    return task.result()
