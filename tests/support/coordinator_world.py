"""A coordinator alone, of groups or of transactions: a log in memory that outlives it, on virtual time.

`@told_by(in_world)` gives a test a `GroupWorld`, `@told_by(in_transaction_world)` a `TransactionWorld`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

from odradek.broker.groups.classic.members import JoinRequest, JoinResult, SyncRequest, SyncResult
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.replication.broker_transport import read_response
from odradek.broker.share_states.states import ShareStateRequests
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.decisions import ProducerIdentity
from odradek.broker.transactions.metadata import TV2, TransactionMetadata
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.features import OF_NEW_CLUSTERS, FinalizedFeatures
from odradek.metadata.image.image import BrokerImage, ClusterImage, ImageHolder, PartitionImage, TopicImage
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.consumer import build_subscription
from odradek.wire.protocol.framing import parse_request_header
from tests.support import loop
from tests.support.field_names import check_field_names
from tests.support.loop import LoopClock
from tests.support.offsets_log import MemoryOffsetsLog
from tests.support.share_states import MemoryShareStates

T = TypeVar("T")

GROUP_SETTINGS: Mapping[str, Any] = {
    "group_min_session_timeout_ms": 6000,
    "group_max_session_timeout_ms": 1_800_000,
    "group_initial_rebalance_delay_ms": 3000,
    "group_max_size": 2**31 - 1,
    "group_consumer_assignors": ("uniform", "range"),
    "group_consumer_max_size": 2**31 - 1,
    "group_consumer_session_timeout_ms": 45_000,
    "group_consumer_heartbeat_interval_ms": 5000,
    "group_consumer_migration_policy": "bidirectional",
    "group_streams_max_size": 2**31 - 1,
    "group_streams_session_timeout_ms": 45_000,
    "group_streams_heartbeat_interval_ms": 5000,
    "group_streams_num_standby_replicas": 0,
    "group_streams_initial_rebalance_delay_ms": 3000,
    "group_streams_assignment_interval_ms": 1000,
    "group_streams_task_offset_interval_ms": 60_000,
    "group_streams_acceptable_recovery_lag": 10_000,
    "group_streams_rack_aware_assignment_tags": (),
    "group_share_max_size": 200,
    "group_share_session_timeout_ms": 45_000,
    "group_share_heartbeat_interval_ms": 5000,
    "group_consumer_assignment_interval_ms": 0,
    "group_share_assignment_interval_ms": 1000,
    "group_coordinator_rebalance_protocols": ("classic", "consumer", "streams"),
    "offset_metadata_max_bytes": 4096,
    "offsets_retention_minutes": 10_080,
    "offsets_retention_check_interval_ms": 600_000,
    "offsets_load_buffer_size": 5 << 20,
    "offsets_topic_compression_codec": 0,
    "offsets_commit_timeout_ms": 5000,
}
TRANSACTION_SETTINGS: Mapping[str, Any] = {
    "transaction_max_timeout_ms": 900_000,
    "transaction_state_log_load_buffer_size": 5 << 20,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 1000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 3_600_000,
    "transactional_id_expiration_ms": 604_800_000,
}


def settings(defaults: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
    """Kafka's defaults, with `changes`."""
    assert changes.keys() <= defaults.keys(), f"unknown settings {changes.keys() - defaults.keys()}"
    return SimpleNamespace(**{**defaults, **changes})


def topic_id(name: str) -> UUID:
    """The id that `image` gives a topic."""
    return UUID(bytes=name.encode().ljust(16, b"\1")[:16])


def image(topics: Mapping[str, int | Sequence[int]], *, brokers: Iterable[int] = ()) -> ClusterImage:
    """A cluster of these topics: how many partitions each has, all led by broker 0, or the leader of each of them."""
    made = {
        name: TopicImage(
            name=name,
            id=topic_id(name),
            partitions=tuple(
                PartitionImage(index, leader, 0, (leader,), (leader,), 0)
                for index, leader in enumerate([0] * leaders if isinstance(leaders, int) else leaders)
            ),
            is_internal=False,
        )
        for name, leaders in topics.items()
    }
    return ClusterImage(
        topics=made,
        topics_by_id={topic.id: topic for topic in made.values()},
        features=FinalizedFeatures(1, OF_NEW_CLUSTERS),
        brokers={
            number: BrokerImage(number, {"PLAINTEXT": ("broker.test", 9092)}, rack=None, epoch=number)
            for number in brokers
        },
    )


class GroupWorld:
    """One coordinator over a log that outlives it."""

    def __init__(
        self, *, topics: Mapping[str, int] | None = None, partitions: int = 2, **changes: Any
    ) -> None:
        self.log = MemoryOffsetsLog(partitions)
        self.images = ImageHolder(image(topics or {}))
        self.clock = LoopClock()
        self.settings: Any = settings(GROUP_SETTINGS, changes)
        self._ids = 0
        self.share_states: ShareStateRequests = MemoryShareStates()
        self.groups = self._coordinator()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.log,
            clock=self.clock,
            settings=self.settings,
            images=self.images,
            new_id=self._next_id,
            new_share_states=lambda: self.share_states,
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
        await self.groups.runtime.wait_until_loaded()

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

    # --- offsets ------------------------------------------------------------------------------------------------

    async def commit(
        self, *commits: tuple[str, int, int], group_id: str = "g", metadata: str = "", **fields: Any
    ) -> list[OdradekError | None]:
        """Commit offsets of (topic, partition); without `fields` as a client outside of the group."""
        values: dict[str, Any] = {
            "member_id": "",
            "instance_id": None,
            "generation": -1,
            "version": 9,
            **fields,
        }
        now_ms = self.clock.wall_ms()
        offsets = [
            (topic, partition, OffsetAndMetadata(offset, metadata=metadata, commit_timestamp_ms=now_ms))
            for topic, partition, offset in commits
        ]
        return await result_of(self.groups.offsets.commit(group_id, commits=offsets, **values))

    def committed(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        found = self.groups.offsets.fetch(group_id, member_id=None, member_epoch=-1, partitions=None)
        return {key: value.offset for key, value in found.items()}


def join_request(member_id: str = "", **fields: Any) -> JoinRequest:
    """A join with ordinary values; `topics` makes the subscription of its protocols."""
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


A = TopicPartition("a", 0)
B = TopicPartition("a", 1)
C = TopicPartition("b", 0)

Marker = tuple[int, int, bool, int, int]  # producer id, epoch, commit, coordinator epoch, transaction version


class Leaders:
    """A `BrokerTransport` to leaders: `answers` are error codes by partition, 0 where none is given."""

    def __init__(self) -> None:
        self.answers: dict[TopicPartition, list[int]] = {}
        self.written: dict[TopicPartition, list[Marker]] = {}
        self.requests: list[tuple[int, list[TopicPartition]]] = []
        self.failures: list[Exception] = []
        self.lost_answers = 0
        self.gate: asyncio.Event | None = None

    async def send(self, broker_id: int, request: Any) -> Any:
        """Take the markers of a request as its bytes have them, and answer."""
        frame = memoryview(request.pack(1, "test"))[4:]
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        header = parse_request_header(frame)
        asked = codec.decode_request(ApiKey.WRITE_TXN_MARKERS, 2, frame, header.body_position)
        partitions: list[TopicPartition] = []
        answer = []
        for marker in asked.markers:
            topics = []
            for topic in marker.topics:
                rows = []
                for number in topic.partition_indexes:
                    partition = TopicPartition(topic.name, number)
                    partitions.append(partition)
                    codes = self.answers.get(partition)
                    code = codes.pop(0) if codes else 0
                    rows.append({"partition_index": number, "error_code": code})
                    if code == 0:
                        self.written.setdefault(partition, []).append(
                            (
                                marker.producer_id,
                                marker.producer_epoch,
                                marker.transaction_result,
                                marker.coordinator_epoch,
                                marker.transaction_version,
                            )
                        )
                topics.append({"name": topic.name, "partitions": rows})
            answer.append({"producer_id": marker.producer_id, "topics": topics})
        self.requests.append((broker_id, partitions))
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionError("the answer was lost")
        # As bytes: so codes that this release does not know take the way that a newer peer's take.
        answered = messages.response(ApiKey.WRITE_TXN_MARKERS, 2, markers=answer)
        packed = codec.encode_response(ApiKey.WRITE_TXN_MARKERS, 2, 1, answered)
        return read_response(request, memoryview(packed)[4:])

    def interrupt(self, broker_id: int) -> None:
        """Nothing waits."""


class _Ids:
    def __init__(self) -> None:
        self.last = 6

    async def next(self) -> int:
        self.last += 1
        return self.last


class TransactionWorld:
    """One coordinator over a log that outlives it. The first producer id is 7."""

    def __init__(self, *, level: int = TV2, **changes: Any) -> None:
        self.log = MemoryOffsetsLog(2)
        self.images = ImageHolder(image({"a": (1, 2), "b": (1,)}, brokers=range(3)))
        self.clock = LoopClock()
        self.level = level
        self.leaders = Leaders()
        self.ids = _Ids()
        self.settings: Any = settings(TRANSACTION_SETTINGS, changes)
        self.coordinator = self._coordinator()

    def _coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.log,
            clock=self.clock,
            current_settings=lambda: self.settings,
            images=self.images,
            producer_ids=self.ids,
            transport=self.leaders,
            version_level=lambda: self.level,
        )

    async def restart(self) -> None:
        """Stop the coordinator and let another one load what it left, one leader epoch later."""
        await self.coordinator.stop()
        self.log.epoch += 1
        self.coordinator = self._coordinator()
        self.coordinator.start()
        await self.coordinator.runtime.wait_until_loaded()

    # --- requests -------------------------------------------------------------------------------------------

    async def initialize(
        self, name: str = "tx", given: ProducerIdentity | None = None, *, timeout_ms: int = 60_000
    ) -> ProducerIdentity:
        return await self.coordinator.initialize(name, timeout_ms=timeout_ms, given=given)

    async def add(
        self, producer: ProducerIdentity, *partitions: TopicPartition, name: str = "tx", version: int = TV2
    ) -> None:
        await self.coordinator.add_partitions(name, producer, partitions, client_version=version)

    async def end(
        self, producer: ProducerIdentity, *, is_commit: bool = True, name: str = "tx", version: int = TV2
    ) -> ProducerIdentity:
        return await self.coordinator.end(name, producer, is_commit=is_commit, client_version=version)

    def stored(self, name: str = "tx") -> TransactionMetadata:
        """What the coordinator has of an id."""
        return self.coordinator.runtime.shard(name).machine.ids[name].metadata

    def records(self) -> int:
        """Batches in the log."""
        return self.log.appends


async def _told(
    world: T,
    coordinator_of: Callable[[], GroupCoordinator | TransactionCoordinator],
    story: Callable[[T], Awaitable[None]],
) -> None:
    coordinator_of().start()
    await coordinator_of().runtime.wait_until_loaded()
    try:
        await story(world)
    finally:
        await coordinator_of().stop()


def in_world(story: Callable[[GroupWorld], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """Run `story` with a started coordinator of groups."""

    async def run() -> None:
        world = GroupWorld(**changes)
        await _told(world, lambda: world.groups, story)

    loop.run(run())


def in_transaction_world(
    story: Callable[[TransactionWorld], Coroutine[Any, Any, None]], **changes: Any
) -> None:
    """Run `story` with a started coordinator of transactions."""
    check_field_names()

    async def run() -> None:
        world = TransactionWorld(**changes)
        await _told(world, lambda: world.coordinator, story)

    loop.run(run())


async def turns(count: int = 5) -> None:
    """Let the loop go round a few times without letting time pass."""
    for _ in range(count):
        await asyncio.sleep(0)


def done(task: asyncio.Task[T]) -> T:
    """The result of a task that must have ended."""
    assert task.done(), "the answer should be there by now"
    return task.result()
