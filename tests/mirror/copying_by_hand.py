"""A flow whose records are copied by a test, batch by batch, while positions are the product's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.producer.producer import Producer
from odradek.foundation.clock import SystemClock
from odradek.foundation.errors import TopicAlreadyExists
from odradek.foundation.ids import TopicPartition
from odradek.mirror.counters import FlowCounters
from odradek.mirror.flow_positions import OffsetTranslation
from odradek.mirror.naming import IdentityReplicationPolicy, ReplicationPolicy
from odradek.mirror.passed import PartitionStart, PassedBatch
from odradek.mirror.settings import ClusterSettings, FlowSettings
from tests.support.peers import TwoClusters


def flow_settings(**changed: object) -> FlowSettings:
    """A flow from `a` to `b`, between single brokers, that looks at groups every second."""
    quick: dict[str, object] = {
        "emit_checkpoints_interval_seconds": 1,
        "sync_group_offsets_interval_seconds": 1,
        "refresh_groups_interval_seconds": 1,
        "offset_syncs_topic_replication_factor": 1,
        "checkpoints_topic_replication_factor": 1,
        "heartbeats_topic_replication_factor": 1,
    }
    made: FlowSettings = FlowSettings(
        source=ClusterSettings("a", {}),
        target=ClusterSettings("b", {}),
        **{**quick, **changed},  # type: ignore[arg-type]
    )
    return made


class FlowByHand:
    """Copies partitions of a source in transactions, one for each batch, and reports them to the product."""

    def __init__(
        self,
        source: Client,
        target: Client,
        settings: FlowSettings,
        *,
        is_identity: bool,
        positions: dict[str, int],
    ) -> None:
        self.policy: ReplicationPolicy = (
            IdentityReplicationPolicy(known_source_alias="a") if is_identity else ReplicationPolicy()
        )
        self.source = source
        self.target = target
        self.counters = FlowCounters("a", wall_ms=SystemClock().wall_ms)
        self.translation = OffsetTranslation(
            source, target, settings=settings, policy=self.policy, counters=self.counters
        )
        self._producer = Producer(target, transactional_id="flow by hand")
        self.positions = positions

    def target_of(self, topic: str) -> TopicPartition:
        """The partition at the target of a topic's only partition."""
        return TopicPartition(self.policy.remote_topic("a", topic), 0)

    async def start(self, topics: list[str]) -> None:
        """Begin with these topics, of one partition each, at the positions of the flow before this one."""
        self.translation.start()
        await self._producer.start()
        await self.begin(topics)

    async def begin(self, topics: list[str]) -> None:
        """Begin an assignment, as after each change of the mirror's group."""
        starts: dict[TopicPartition, PartitionStart] = {}
        for topic in topics:
            with suppress(TopicAlreadyExists):
                await TopicAdmin(self.target).create(self.target_of(topic).topic, partitions=1)
            position = self.positions.setdefault(topic, 0)
            starts[TopicPartition(topic, 0)] = PartitionStart(self.target_of(topic), position, position == 0)
        self.translation.set_assignment(list(starts))
        await self.translation.begin(starts)

    async def copy(self, topic: str, *, until: int) -> None:
        """Copy what the source has up to this offset."""
        partition, target = TopicPartition(topic, 0), self.target_of(topic)
        async with PartitionConsumer(self.source, is_read_committed=True) as consumer:
            consumer.assign({partition: self.positions[topic]})
            while consumer.position(partition) < until:
                for block in await consumer.poll_blocks(timeout_ms=1_000):
                    records = block.consumer_records()
                    async with self._producer.transaction():
                        sent = [
                            await self._producer.send(
                                target.topic,
                                record.value,
                                key=record.key,
                                headers=record.headers,
                                partition=0,
                            )
                            for record in records
                        ]
                        first = await sent[0]
                    passed = PassedBatch(
                        partition,
                        target,
                        block.first_offset,
                        block.end_offset,
                        first.offset,
                        len(records),
                        len(records) == block.end_offset - block.first_offset,
                        records[-1].timestamp_ms,
                        sum(len(record.value or b"") for record in records),
                        None,
                    )
                    self.positions[topic] = block.end_offset
                    self.counters.note_passed([passed])
                    self.translation.note_passed([passed])

    async def close(self) -> None:
        await self._producer.close()
        await self.translation.close()


@asynccontextmanager
async def flow_by_hand(
    clusters: TwoClusters,
    topics: list[str],
    *,
    positions: dict[str, int],
    is_identity: bool = False,
    **settings: object,
) -> AsyncIterator[FlowByHand]:
    """A flow that runs. `positions` is what a later one continues from."""
    async with Client(clusters.source.bootstrap) as source, Client(clusters.target.bootstrap) as target:
        flow = FlowByHand(
            source, target, flow_settings(**settings), is_identity=is_identity, positions=positions
        )
        try:
            await flow.start(topics)
            yield flow
        finally:
            await flow.close()
