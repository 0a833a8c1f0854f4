"""A transaction coordinator alone: a log in memory, leaders that answer as a test says, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from odradek.cluster.image import BrokerImage, ClusterImage, ImageHolder, PartitionImage, TopicImage
from odradek.foundation.ids import TopicPartition
from odradek.protocol import codec, messages
from odradek.protocol.api import ApiKey
from odradek.protocol.framing import parse_request_header
from odradek.replication.broker_transport import read_response
from odradek.transactions.coordinator import TransactionCoordinator
from odradek.transactions.decisions import ProducerIdentity
from odradek.transactions.metadata import TV2, TransactionMetadata
from tests.support import loop
from tests.support.field_names import check_field_names
from tests.support.group_world import topic_id
from tests.support.loop import LoopClock
from tests.support.offsets_log import MemoryOffsetsLog

A = TopicPartition("a", 0)
B = TopicPartition("a", 1)
C = TopicPartition("b", 0)

Marker = tuple[int, int, bool, int, int]  # producer id, epoch, commit, coordinator epoch, transaction version


def image(leaders: dict[TopicPartition, int]) -> ClusterImage:
    """A cluster of brokers 0 to 2 in which these brokers lead these partitions."""
    topics: dict[str, list[PartitionImage]] = {}
    for partition, leader in sorted(leaders.items()):
        topics.setdefault(partition.topic, []).append(
            PartitionImage(
                partition=partition.partition,
                leader=leader,
                leader_epoch=0,
                replicas=(0, 1),
                isr=(0, 1),
                partition_epoch=0,
            )
        )
    made = {
        name: TopicImage(name=name, id=topic_id(name), partitions=tuple(rows), is_internal=False)
        for name, rows in topics.items()
    }
    brokers = {
        number: BrokerImage(id=number, endpoints={"PLAINTEXT": ("h", 1)}, rack=None, epoch=number)
        for number in range(3)
    }
    return ClusterImage(topics=made, topics_by_id={one.id: one for one in made.values()}, brokers=brokers)


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
        self.images = ImageHolder(image({A: 1, B: 2, C: 1}))
        self.clock = LoopClock()
        self.level = level
        self.leaders = Leaders()
        self.ids = _Ids()
        values: dict[str, Any] = {
            "transaction_max_timeout_ms": 900_000,
            "transaction_state_log_load_buffer_size": 5 << 20,
            "transaction_abort_timed_out_transaction_cleanup_interval_ms": 1000,
            "transaction_remove_expired_transaction_cleanup_interval_ms": 3_600_000,
            "transactional_id_expiration_ms": 604_800_000,
        }
        assert changes.keys() <= values.keys(), f"unknown settings {changes.keys() - values.keys()}"
        self.settings: Any = SimpleNamespace(**{**values, **changes})
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
        await self.coordinator.runtime.loaded()

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


def in_transaction_world(
    story: Callable[[TransactionWorld], Coroutine[Any, Any, None]], **changes: Any
) -> None:
    """Run `story` with a started coordinator, on virtual time."""
    check_field_names()

    async def run() -> None:
        world = TransactionWorld(**changes)
        world.coordinator.start()
        await world.coordinator.runtime.loaded()
        try:
            await story(world)
        finally:
            await world.coordinator.stop()

    loop.run(run())
