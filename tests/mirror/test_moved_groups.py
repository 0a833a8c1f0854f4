"""Groups that move from one cluster to another: where their offsets come to be, and what they then read."""

from __future__ import annotations

import pytest

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.group import GroupConsumer
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import Checkpoint, parse_checkpoint, parse_heartbeat
from odradek.mirror.topic_tail import tail
from tests.mirror.copying_by_hand import FlowByHand, flow_by_hand
from tests.support.peers import TwoClusters
from tests.support.polling import eventually
from tests.support.stories import in_real_time

pytestmark = pytest.mark.integration


async def fill(clusters: TwoClusters, topic: str, count: int, *, first: int = 0) -> None:
    """Records whose values are their numbers, in batches of some hundred."""
    async with Client(clusters.source.bootstrap) as client:
        if not first:
            await TopicAdmin(client).create(topic, partitions=1)
        async with Producer(client, batch_bytes_max=2_000) as producer:
            for number in range(first, first + count):
                await producer.send(topic, b"%d" % number, partition=0)


async def commit(clusters: TwoClusters, group_id: str, topic: str, offset: int) -> None:
    """A group without members commits at the source."""
    async with Client(clusters.source.bootstrap) as client:
        committed = CommittedOffset(offset=offset, leader_epoch=-1, metadata="m")
        await GroupAdmin(client).alter_offsets(group_id, {TopicPartition(topic, 0): committed})


async def checkpoints(flow: FlowByHand) -> dict[tuple[str, TopicPartition], Checkpoint]:
    """The newest checkpoint of each group."""
    found: dict[tuple[str, TopicPartition], Checkpoint] = {}
    async for records in tail(flow.target, "a.checkpoints.internal", offsets_max=1_000_000):
        for record in records:
            checkpoint = parse_checkpoint(record.key or b"", record.value or b"")
            found[checkpoint.group_id, checkpoint.partition] = checkpoint
    return found


async def value_at(client: Client, partition: TopicPartition, offset: int) -> int:
    """The number of the first record that a consumer reads from this offset on."""
    async with PartitionConsumer(client, is_read_committed=True) as consumer:
        consumer.assign({partition: offset})
        while not (records := await consumer.poll(records_max=1, timeout_ms=1_000)):
            pass
        return int(records[0].value or b"-1")


async def checkpoint_of(flow: FlowByHand, group_id: str, topic: str, source_offset: int) -> Checkpoint:
    """The group's checkpoint, once it is for this offset of the source."""
    key = (group_id, flow.target_of(topic))

    async def is_there() -> bool:
        found = (await checkpoints(flow)).get(key)
        return found is not None and found.source_offset == source_offset

    await eventually(f"checkpoint of {group_id} at {source_offset}", is_there)
    return (await checkpoints(flow))[key]


@pytest.mark.parametrize("is_identity", [False, True])
@in_real_time
async def test_a_moved_group_reads_on_where_it_was(
    clusters: TwoClusters, unique: str, is_identity: bool
) -> None:
    await fill(clusters, unique, 2_000)
    async with flow_by_hand(
        clusters, [unique], positions={}, is_identity=is_identity, sync_group_offsets_enabled=True
    ) as flow:
        await flow.copy(unique, until=2_000)
        await commit(clusters, unique, unique, 777)
        target = flow.target_of(unique)
        found = await checkpoint_of(flow, unique, unique, 777)
        assert found.metadata == "m"

        async def is_written() -> bool:
            offsets = await GroupAdmin(flow.target).offsets(unique)
            return target in offsets and offsets[target].offset == found.target_offset

        await eventually("offset of the group at the target", is_written)
        async with GroupConsumer(flow.target, group_id=unique, topics=[target.topic]) as consumer:
            records = await consumer.poll(records_max=1, timeout_ms=20_000)
            assert int(records[0].value or b"") == 777  # nothing skipped, nothing again


@in_real_time
async def test_groups_behind_are_translated_after_a_restart(clusters: TwoClusters, unique: str) -> None:
    """Nothing was translated then before new syncs were written (KAFKA-15905, KAFKA-14666)."""
    positions: dict[str, int] = {}
    await fill(clusters, unique, 1_500)
    async with flow_by_hand(clusters, [unique], positions=positions) as flow:
        await flow.copy(unique, until=1_500)
    await commit(clusters, unique, unique, 333)
    await commit(clusters, f"{unique}-end", unique, 1_500)
    async with flow_by_hand(clusters, [unique], positions=positions) as flow:
        target = flow.target_of(unique)
        behind = await checkpoint_of(flow, unique, unique, 333)
        # The syncs of five seconds have one run, in which markers of the target lie.
        markers = 20
        assert 333 - markers <= await value_at(flow.target, target, behind.target_offset) <= 333
        at_end = await checkpoint_of(flow, f"{unique}-end", unique, 1_500)
        await fill(clusters, unique, 10, first=1_500)
        await flow.copy(unique, until=1_510)
        assert await value_at(flow.target, target, at_end.target_offset) == 1_500


@in_real_time
async def test_a_group_of_a_quiet_or_empty_topic_has_a_checkpoint(clusters: TwoClusters, unique: str) -> None:
    """Offset 0 was left out (KAFKA-10048), and quiet topics stayed as they were (KAFKA-15906)."""
    await fill(clusters, unique, 300)
    async with Client(clusters.source.bootstrap) as client:
        await TopicAdmin(client).create(f"{unique}-empty", partitions=1)
    await commit(clusters, unique, unique, 0)
    await commit(clusters, f"{unique}-empty", f"{unique}-empty", 0)
    async with flow_by_hand(clusters, [unique, f"{unique}-empty"], positions={}) as flow:
        await flow.copy(unique, until=300)
        assert (await checkpoint_of(flow, unique, unique, 0)).target_offset == 0
        empty = await checkpoint_of(flow, f"{unique}-empty", f"{unique}-empty", 0)
        assert empty.target_offset == 0
        await commit(clusters, unique, unique, 300)
        at_end = await checkpoint_of(flow, unique, unique, 300)
        assert at_end.target_offset > 299  # behind the last record, though no record came since


@in_real_time
async def test_only_idle_groups_are_written_and_none_goes_back(clusters: TwoClusters, unique: str) -> None:
    await fill(clusters, unique, 900)
    busy, ahead, gone = f"{unique}-busy", f"{unique}-ahead", f"{unique}-gone"
    for group_id in (busy, ahead, gone):
        await commit(clusters, group_id, unique, 100)
    async with flow_by_hand(clusters, [unique], positions={}, sync_group_offsets_enabled=True) as flow:
        target = flow.target_of(unique)
        at_target = GroupAdmin(flow.target)
        await flow.copy(unique, until=900)

        async def offset_of(group_id: str) -> int:
            committed = (await at_target.offsets(group_id)).get(target)
            return -1 if committed is None else committed.offset

        async def all_written() -> bool:
            return min([await offset_of(group_id) for group_id in (busy, ahead, gone)]) >= 100

        await eventually("offsets of all groups", all_written)
        first = await offset_of(gone)
        await at_target.alter_offsets(
            ahead, {target: CommittedOffset(offset=700, leader_epoch=-1, metadata="")}
        )
        async with Client(clusters.source.bootstrap) as source:
            await GroupAdmin(source).delete(gone)
        async with GroupConsumer(flow.target, group_id=busy, topics=[target.topic]) as consumer:
            await consumer.poll(records_max=1, timeout_ms=20_000)
            await commit(clusters, busy, unique, 500)
            await commit(clusters, ahead, unique, 500)
            for group_id in (busy, ahead):
                await checkpoint_of(flow, group_id, unique, 500)
            looks = flow.counters.checkpointed_at_ms

            async def looked_twice() -> bool:
                return (flow.counters.checkpointed_at_ms or 0) >= (looks or 0) + 2_000

            await eventually("two more looks at the groups", looked_twice)
            assert await offset_of(busy) < 500
        assert await offset_of(ahead) == 700
        assert await offset_of(gone) == first
        # A deleted group stays deleted at the target too.
        await at_target.delete(gone)
        looks = flow.counters.checkpointed_at_ms
        await eventually("two more looks at the groups", looked_twice)
        assert gone not in {group.group_id for group in await at_target.list()}


@in_real_time
async def test_a_worker_that_keeps_a_partition_keeps_what_it_knows(
    clusters: TwoClusters, unique: str
) -> None:
    await fill(clusters, unique, 800)
    async with flow_by_hand(clusters, [unique], positions={}, emit_offset_syncs_enabled=False) as flow:
        await flow.copy(unique, until=800)
        await flow.begin([unique])
        await commit(clusters, unique, unique, 222)
        found = await checkpoint_of(flow, unique, unique, 222)
        assert await value_at(flow.target, flow.target_of(unique), found.target_offset) == 222
        # Sent back, the mirror knows nothing of the first copy any more.
        flow.positions[unique] = 500
        await flow.begin([unique])
        assert flow.translation.index.translate_offset(TopicPartition(unique, 0), 222) is None


@in_real_time
async def test_heartbeats_name_the_flow(clusters: TwoClusters, unique: str) -> None:
    await fill(clusters, unique, 1)
    async with flow_by_hand(clusters, [unique], positions={}) as flow:
        await eventually("two heartbeats", lambda: flow.counters.heartbeats >= 2)
        beats = [
            parse_heartbeat(record.key or b"", record.value or b"")
            async for records in tail(flow.target, "heartbeats", offsets_max=1_000)
            for record in records
        ]
        times = [heartbeat.timestamp_ms for heartbeat in beats if heartbeat[:2] == ("a", "b")]
        assert times[-1] == pytest.approx(flow.counters.wall_ms(), abs=30_000)
