"""The coordinator: where groups live, loading, moving away, and keeping the log short."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.consumer import schema as consumer_schema
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.schema import OffsetAndMetadata, encode_offset_key, encode_offset_value
from odradek.foundation import errors
from odradek.wire.protocol.group_partitions import java_hash, partition_of
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import build_marker
from tests.support.consumer_members import ConsumerMember, converge
from tests.support.coordinator_world import GroupWorld, in_world, result_of
from tests.support.examples import examples
from tests.support.stories import told_by


async def commit(world: GroupWorld, group_id: str, topic: str, partition: int, offset: int) -> None:
    assert await world.commit((topic, partition, offset), group_id=group_id) == [None]


def snapshot(world: GroupWorld) -> Any:
    """Everything that clients could see of all groups."""
    groups: dict[str, Any] = {}
    for shard in world.groups.runtime.list_loaded_shards():
        for group_id, group in shard.machine.groups.items():
            if isinstance(group, ClassicGroup):
                groups[group_id] = group.rebalance.value()
            else:
                assert isinstance(group, ConsumerGroup)
                groups[group_id] = sorted(group.live_records())
    return groups, sorted(world.groups.offsets.list_committed())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("console-consumer-12345", 158455506), ("grüppe", -1233264812), ("😀", 1772899)],
)
def test_java_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_partitions_are_reckoned_without_the_sign() -> None:
    assert partition_of("grüppe", 50) == 1233264812 % 50
    assert java_hash("polygenelubricants") == -(2**31)  # the hash whose sign cannot be taken off
    assert partition_of("polygenelubricants", 50) == 0


@told_by(in_world)
async def test_a_group_of_another_broker_is_refused(world: GroupWorld) -> None:
    world.log.led = {partition_of("here", 2)}
    world.groups.runtime.refresh()
    other = next(name for name in "abcdef" if partition_of(name, 2) not in world.log.led)
    assert world.groups.offsets.fetch("here", member_id=None, member_epoch=-1, partitions=None) == {}
    with pytest.raises(errors.NotCoordinator):
        world.groups.runtime.shard(other)


@told_by(in_world)
async def test_a_stopped_coordinator_serves_no_group(world: GroupWorld) -> None:
    await world.groups.stop()
    with pytest.raises(errors.CoordinatorNotAvailable):
        world.groups.runtime.shard("g")


@pytest.mark.thorough
@told_by(in_world, partitions=1, offsets_load_buffer_size=10_000)
async def test_while_loading_clients_are_refused_and_the_loop_is_free(world: GroupWorld) -> None:
    for number in range(10_000):
        record = (
            encode_offset_key("g", "t", number % 500),
            encode_offset_value(OffsetAndMetadata(number)),
        )
        world.log.append(0, build_batch([(0, *record)]))
    await world.groups.stop()
    world.groups = world._coordinator()
    world.groups.start()
    with pytest.raises(errors.CoordinatorLoadInProgress):
        world.groups.runtime.shard("g")
    with pytest.raises(errors.CoordinatorLoadInProgress):
        world.groups.admin.list_groups()
    loading = asyncio.ensure_future(world.groups.runtime.wait_until_loaded())
    passes = 0
    while not loading.done():
        await asyncio.sleep(0)
        passes += 1
    assert passes >= 5
    assert world.groups.offsets.fetch("g", member_id=None, member_epoch=-1, partitions=[("t", 499)]) == {
        ("t", 499): OffsetAndMetadata(9999)
    }


@told_by(in_world, partitions=1)
async def test_a_load_that_fails_is_tried_again(world: GroupWorld) -> None:
    await commit(world, "g", "t", 0, 7)
    await world.groups.stop()
    world.groups = world._coordinator()
    read = world.log.read
    failures = [errors.KafkaStorageError("not yet"), OSError("io")]

    def failing_read(partition: int, offset: int, *, bytes_max: int) -> bytes:
        if failures:
            raise failures.pop()
        return read(partition, offset, bytes_max=bytes_max)

    world.log.read = failing_read  # type: ignore[method-assign]
    world.groups.start()
    await world.groups.runtime.wait_until_loaded()
    assert [row[3] for row in world.groups.offsets.list_committed()] == [7]


@told_by(in_world, partitions=1)
async def test_a_load_that_ends_because_another_broker_leads_is_no_error(
    world: GroupWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """The new leader may have made us truncate our log: the advice for damaged logs would be wrong."""
    await commit(world, "g", "t", 0, 7)
    await world.groups.stop()
    world.groups = world._coordinator()

    def read_after_the_end(partition: int, offset: int, *, bytes_max: int) -> bytes:
        world.log.led.discard(partition)
        world.groups.runtime.refresh()
        return b""

    world.log.read = read_after_the_end  # type: ignore[method-assign]
    world.groups.start()
    await asyncio.sleep(1)
    assert world.groups.runtime.shards() == []
    assert caplog.records == []


@told_by(in_world, partitions=1)
async def test_a_partition_that_returns_in_a_new_epoch_is_reloaded(world: GroupWorld) -> None:
    await commit(world, "g", "t", 0, 1)
    world.log.append(
        0, build_batch([(0, encode_offset_key("g", "t", 0), encode_offset_value(OffsetAndMetadata(9)))])
    )
    world.log.epoch += 1
    world.groups.runtime.refresh()
    await world.groups.runtime.wait_until_loaded()
    assert [row[3] for row in world.groups.offsets.list_committed()] == [9]


@told_by(in_world, partitions=1)
async def test_offsets_of_transactions_count_from_their_commit(world: GroupWorld) -> None:
    def pending(producer_id: int, offset: int) -> bytearray:
        record = (
            0,
            encode_offset_key("g", "t", producer_id),
            encode_offset_value(OffsetAndMetadata(offset)),
        )
        return build_batch(
            [record], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )

    def marker(producer_id: int, *, is_commit: bool) -> bytearray:
        return build_marker(
            producer_id=producer_id,
            producer_epoch=0,
            is_commit=is_commit,
            coordinator_epoch=0,
            timestamp_ms=0,
        )

    world.log.producers[0].rules.must_verify = False
    for batch in (pending(1, 10), pending(2, 20), pending(3, 30)):
        world.log.append(0, batch)
    world.log.append(0, marker(1, is_commit=True))
    world.log.append(0, marker(2, is_commit=False))
    await world.restart()
    assert [row[2:] for row in world.groups.offsets.list_committed()] == [(1, 10)]


# --- keeping the log short ----------------------------------------------------------------------------------


async def some_state(world: GroupWorld) -> None:
    joined = await world.member("classic")
    members = [ConsumerMember(world, name, group_id="consumer") for name in "ab"]
    await converge(members)
    for number in range(30):
        await commit(world, f"g{number % 3}", "t", number % 5, number)
    assert joined.error is None


@told_by(in_world, partitions=1, topics={"t": 4})
async def test_a_compacted_log_says_the_same_and_is_shorter(world: GroupWorld) -> None:
    await some_state(world)
    before, size = snapshot(world), sum(map(len, world.log.batches[0]))
    world.log.compact()
    assert sum(map(len, world.log.batches[0])) < 0.6 * size
    await world.restart()
    assert snapshot(world) == before


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("commit"), st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 99)),
            st.tuples(st.just("compact"), st.just("a"), st.just(0), st.just(0)),
            st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0), st.just(0)),
            st.tuples(st.just("restart"), st.just("a"), st.just(0), st.just(0)),
        ),
        max_size=30,
    )
)
@told_by(in_world)
async def test_offsets_are_what_was_committed_last(
    world: GroupWorld, steps: list[tuple[str, str, int, int]]
) -> None:
    model: dict[tuple[str, str, int], int] = {}
    for action, group_id, partition, offset in steps:
        if action == "commit":
            await commit(world, group_id, "t", partition, offset)
            model[group_id, "t", partition] = offset
        elif action == "compact":
            for number in range(world.log.partition_count()):
                world.log.compact(number)
        elif action == "delete":
            if any(key[0] == group_id for key in model):
                assert await result_of(world.groups.admin.delete(group_id)) is None
            model = {key: value for key, value in model.items() if key[0] != group_id}
        else:
            await world.restart()
        assert {row[:3]: row[3] for row in world.groups.offsets.list_committed()} == model
        assert {row.group_id for row in world.groups.admin.list_groups()} == {key[0] for key in model}


@told_by(in_world, partitions=1, topics={"t": 1})
async def test_the_log_has_no_consumer_records_left_after_a_group_is_gone(world: GroupWorld) -> None:
    member = ConsumerMember(world, "a", topic_regex="t", topic_names=())
    await member.must_beat()
    kinds = {int.from_bytes(key[:2], "big") for key in world.log.newest_values()}
    assert kinds == consumer_schema.KINDS - {consumer_schema.RecordKind.PARTITIONS}
    await member.leave()
    assert await result_of(world.groups.admin.delete("g")) is None
    assert world.log.newest_values() == {}
    await world.restart()
    (shard,) = world.groups.runtime.list_loaded_shards()
    assert list(shard.machine.groups) == []
