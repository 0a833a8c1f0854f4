"""Offsets of transactions in a group: pending until a marker, in live changes and after a load alike."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from odradek.broker.coordination.topic_log import TransactionalWriter
from odradek.broker.groups.offset_requests import UNSTABLE
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.foundation import errors, transaction_errors
from odradek.wire.records.control import Marker
from tests.support.coordinator_world import GroupWorld, in_world, result_of, turns
from tests.support.stories import told_by

GROUP = "g"


class Transactions:
    """Producers that commit offsets of one group in transactions of version 2."""

    def __init__(self, world: GroupWorld) -> None:
        self.world = world
        self.epochs: dict[int, int] = {}

    @property
    def offsets(self) -> Any:
        return self.world.groups.offsets

    async def commit(
        self, producer_id: int, offset: int, *, partition: int = 0, group_id: str = GROUP, **fields: Any
    ) -> errors.OdradekError | None:
        """As TxnOffsetCommit does once the coordinator has confirmed the partition."""
        epoch = self.epochs.setdefault(producer_id, 0)
        _, writer, _ = self.offsets.begin_verification(
            group_id, TransactionalWriter(producer_id, epoch), adds_partition=True
        )
        asked = {"member_id": "", "instance_id": None, "generation": -1, "version": 5, **fields}
        commits = [
            ("t", partition, OffsetAndMetadata(offset, commit_timestamp_ms=self.world.clock.wall_ms()))
        ]
        (error,) = await result_of(self.offsets.commit(group_id, commits=commits, writer=writer, **asked))
        return error  # type: ignore[no-any-return]

    async def plain(self, offset: int, *, partition: int = 0) -> None:
        commits = [
            ("t", partition, OffsetAndMetadata(offset, commit_timestamp_ms=self.world.clock.wall_ms()))
        ]
        (error,) = await result_of(
            self.offsets.commit(
                GROUP, member_id="", instance_id=None, generation=-1, version=8, commits=commits
            )
        )
        assert error is None

    async def end(
        self, producer_id: int, *, commit: bool, partitions: range = range(2), **fields: Any
    ) -> errors.OdradekError | None:
        epoch = self.epochs[producer_id] = self.epochs[producer_id] + 1
        marker = Marker(producer_id, epoch, commit, 0, self.world.clock.wall_ms())._replace(**fields)
        partition = self.world.groups.runtime.partition_for(GROUP)
        error: errors.OdradekError | None = await result_of(
            self.offsets.complete_transaction(partition, marker, transaction_version=2)
        )
        return error

    def fetched(self, *, stable: bool = False, partition: int = 0) -> int | None:
        """The offset in the answer; -2 for an unstable one."""
        found = self.offsets.fetch(
            GROUP, member_id=None, member_epoch=-1, partitions=[("t", partition)], require_stable=stable
        ).get(("t", partition))
        if found is UNSTABLE:
            return -2
        return None if found is None else int(found.offset)

    def all_fetched(self) -> list[int | None]:
        return [
            self.fetched(partition=partition, stable=stable)
            for partition in range(3)
            for stable in (False, True)
        ]


@told_by(in_world, topics={"t": 3})
async def test_an_offset_counts_once_its_transaction_is_committed(world: GroupWorld) -> None:
    transactions = Transactions(world)
    await transactions.plain(5)
    assert await transactions.commit(1, 10) is None
    assert (transactions.fetched(), transactions.fetched(stable=True)) == (5, -2)
    assert await transactions.end(1, commit=True) is None
    assert (transactions.fetched(), transactions.fetched(stable=True)) == (10, 10)
    assert await transactions.commit(1, 11) is None
    assert await transactions.end(1, commit=False) is None
    assert (transactions.fetched(), transactions.fetched(stable=True)) == (10, 10)


@told_by(in_world, topics={"t": 3})
async def test_an_offset_that_was_never_committed_is_unstable_too(world: GroupWorld) -> None:
    transactions = Transactions(world)
    await transactions.commit(1, 10)
    assert (transactions.fetched(), transactions.fetched(stable=True)) == (None, -2)
    assert transactions.fetched(stable=True, partition=1) is None
    found = world.groups.offsets.fetch(
        GROUP, member_id=None, member_epoch=-1, partitions=None, require_stable=True
    )
    assert found == {}


@told_by(in_world, topics={"t": 3})
async def test_the_later_record_wins_whatever_the_order_of_markers(world: GroupWorld) -> None:
    transactions = Transactions(world)
    await transactions.commit(1, 10)
    await transactions.commit(2, 20)
    await transactions.end(2, commit=True)
    assert transactions.fetched() == 20
    assert transactions.fetched(stable=True) == -2, "the older one is still pending"
    await transactions.end(1, commit=True)
    assert transactions.fetched(stable=True) == 20
    await transactions.commit(1, 30)
    await transactions.plain(40)
    assert transactions.fetched(stable=True) == -2
    await transactions.end(1, commit=True)
    assert transactions.fetched(stable=True) == 40
    await world.restart()
    assert transactions.fetched(stable=True) == 40


@told_by(in_world, topics={"t": 3})
async def test_an_abort_lets_an_older_pending_offset_win(world: GroupWorld) -> None:
    transactions = Transactions(world)
    await transactions.commit(1, 10)
    await transactions.commit(2, 20)
    await transactions.end(2, commit=False)
    await transactions.end(1, commit=True)
    assert transactions.fetched(stable=True) == 10


@told_by(in_world, topics={"t": 3})
async def test_a_producer_commits_many_partitions_in_one_transaction(world: GroupWorld) -> None:
    """redpanda#5163: offsets were kept by producer alone, so all but one partition were lost."""
    transactions = Transactions(world)
    for partition in range(3):
        await transactions.commit(1, 10 + partition, partition=partition)
    await world.restart()
    await transactions.end(1, commit=True)
    assert [transactions.fetched(partition=one, stable=True) for one in range(3)] == [10, 11, 12]


@told_by(in_world, topics={"t": 3})
async def test_a_tombstone_drops_what_is_pending_for_its_key_alone(world: GroupWorld) -> None:
    """KAFKA-19164: a tombstone of one offset made the producer forget the group."""
    transactions = Transactions(world)
    for producer_id in (1, 2):
        for partition in (0, 1):
            await transactions.commit(producer_id, 10, partition=partition)
    await result_of(world.groups.offsets.delete(GROUP, [("t", 0)]))
    assert (transactions.fetched(stable=True), transactions.fetched(stable=True, partition=1)) == (
        None,
        -2,
    )
    await world.groups.expiration.expire_offsets()
    await turns()
    await transactions.end(1, commit=False)
    await transactions.end(2, commit=True)
    assert (transactions.fetched(), transactions.fetched(partition=1)) == (None, 10)


@told_by(in_world, topics={"t": 3})
async def test_a_deleted_group_takes_its_pending_offsets_along(world: GroupWorld) -> None:
    transactions = Transactions(world)
    await transactions.commit(1, 10)
    error = await result_of(world.groups.admin.delete(GROUP))
    assert error is None
    await transactions.end(1, commit=True)
    assert transactions.fetched() is None
    await world.restart()
    assert transactions.fetched() is None


@told_by(in_world, topics={"t": 3}, offsets_retention_minutes=60)
async def test_nothing_expires_that_a_transaction_may_commit(world: GroupWorld) -> None:
    """KAFKA-19163, redpanda#31483: the group or its old offset expired before the transaction ended."""
    transactions = Transactions(world)
    await transactions.plain(5)
    await transactions.plain(6, partition=1)
    await transactions.commit(1, 10)
    await asyncio.sleep(4000)
    await world.groups.expiration.expire_offsets()
    await turns()
    assert (transactions.fetched(), transactions.fetched(partition=1)) == (5, None)
    await transactions.end(1, commit=True)
    assert transactions.fetched() == 10
    await asyncio.sleep(4000)
    await world.groups.expiration.expire_offsets()
    await turns()
    assert transactions.fetched() is None


@told_by(in_world, topics={"t": 3})
async def test_a_marker_is_answered_once_the_offsets_are_there(world: GroupWorld) -> None:
    """KAFKA-17507, redpanda#9571: a consumer that reads at once must not see the old offset."""
    transactions = Transactions(world)
    await transactions.commit(1, 10)
    world.log.is_held = True
    ended = asyncio.ensure_future(transactions.end(1, commit=True))
    await turns()
    assert not ended.done() and transactions.fetched() is None
    world.log.release()
    await turns()
    assert ended.done() and transactions.fetched(stable=True) == 10


@told_by(in_world, topics={"t": 3})
async def test_a_repeated_marker_is_answered_and_ends_nothing(world: GroupWorld) -> None:
    transactions = Transactions(world)
    await transactions.commit(1, 10)
    await transactions.end(1, commit=True)
    await transactions.commit(1, 20)
    transactions.epochs[1] -= 1
    assert isinstance(await transactions.end(1, commit=True), transaction_errors.InvalidProducerEpoch)
    assert (transactions.fetched(), transactions.fetched(stable=True)) == (10, -2)
    assert await transactions.end(1, commit=True) is None
    assert transactions.fetched(stable=True) == 20
    transactions.epochs[1] -= 1
    assert await transactions.end(1, commit=True) is None


@told_by(in_world, topics={"t": 3})
async def test_a_refused_commit_does_not_fail_others(world: GroupWorld) -> None:
    transactions = Transactions(world)
    world.log.is_held = True
    first = asyncio.ensure_future(transactions.plain(1))
    await turns()
    writer = TransactionalWriter(1, 0)
    late = world.groups.offsets.commit(
        GROUP,
        member_id="",
        instance_id=None,
        generation=-1,
        version=5,
        commits=[("t", 0, OffsetAndMetadata(3))],
        writer=writer,
    )
    second = asyncio.ensure_future(transactions.plain(2))
    await turns()
    world.log.release()
    (error,) = await result_of(late)
    assert isinstance(error, transaction_errors.InvalidTxnState)
    await first
    await second
    assert transactions.fetched(stable=True) == 2


@told_by(in_world, topics={"t": 3})
async def test_members_are_checked_where_they_are_named(world: GroupWorld) -> None:
    transactions = Transactions(world)
    with pytest.raises(errors.IllegalGeneration):
        await transactions.commit(1, 1, generation=3)
    joined = await world.member(GROUP, topics=("t",))
    assert await transactions.commit(1, 1) is None, "without a member, also to a group with members"
    fields: dict[str, Any] = {"member_id": joined.member_id, "generation": joined.generation}
    assert await transactions.commit(1, 2, **fields) is None
    with pytest.raises(errors.IllegalGeneration):
        await transactions.commit(1, 3, **{**fields, "generation": joined.generation + 1})
    with pytest.raises(errors.UnknownMemberId):
        await transactions.commit(1, 3, **{**fields, "member_id": "nobody"})
    error = await result_of(world.groups.admin.delete(GROUP))
    assert isinstance(error, errors.NonEmptyGroup)


@told_by(in_world, topics={"t": 3})
async def test_pending_offsets_survive_the_cleaner(world: GroupWorld) -> None:
    transactions = Transactions(world)
    partition = world.groups.runtime.shard(GROUP).partition
    await transactions.plain(1)
    await transactions.plain(2)
    await transactions.commit(1, 10)
    await transactions.plain(3, partition=1)
    await transactions.plain(4, partition=1)
    for _ in range(2):
        world.log.compact(partition)
        await world.restart()
        assert (transactions.fetched(), transactions.fetched(partition=1)) == (2, 4)
        assert transactions.fetched(stable=True) == -2
    await transactions.end(1, commit=True)
    world.log.compact(partition)
    await world.restart()
    assert transactions.fetched(stable=True) == 10


@told_by(in_world, topics={"t": 3})
async def test_in_a_compacted_log_the_later_record_wins_too(world: GroupWorld) -> None:
    transactions = Transactions(world)
    partition = world.groups.runtime.shard(GROUP).partition
    await transactions.commit(1, 10)
    await transactions.commit(2, 20)
    await transactions.end(2, commit=True)
    await transactions.end(1, commit=True)
    assert transactions.fetched(stable=True) == 20
    world.log.compact(partition)
    await world.restart()
    assert transactions.fetched(stable=True) == 20


@pytest.mark.parametrize("seed", range(6))
@told_by(in_world, topics={"t": 3})
async def test_a_load_finds_what_live_changes_had_made(world: GroupWorld, seed: int) -> None:
    rng = random.Random(seed)
    transactions = Transactions(world)
    for number in range(120):
        kind = rng.random()
        producer_id, partition = rng.randint(1, 3), rng.randint(0, 2)
        if kind < 0.5:
            await transactions.commit(producer_id, number, partition=partition)
        elif kind < 0.6:
            await transactions.plain(number, partition=partition)
        elif kind < 0.65:
            with contextlib.suppress(errors.GroupIdNotFound):
                await result_of(world.groups.offsets.delete(GROUP, [("t", partition)]))
        elif producer_id in transactions.epochs:
            await transactions.end(producer_id, commit=rng.random() < 0.6)
        if number % 20 == 19:
            before = [
                transactions.fetched(partition=one, stable=stable)
                for one in range(3)
                for stable in (False, True)
            ]
            await world.restart()
            after = [
                transactions.fetched(partition=one, stable=stable)
                for one in range(3)
                for stable in (False, True)
            ]
            assert after == before, f"seed {seed}, after {number}"
