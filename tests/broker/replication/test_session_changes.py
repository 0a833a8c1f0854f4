"""A follower's fetch looks at what has changed, and at nothing else, without overlooking any of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from odradek.broker.replication.purgatory import WaitingFetch
from odradek.broker.replication.replica import Replica
from odradek.broker.replication.replica_fetcher import Key, ReplicaFetcher
from odradek.broker.requests.fetch.followers import FollowerReading
from odradek.broker.requests.fetch.reading import Fetched, FetchTarget
from odradek.broker.requests.fetch.session_changes import SessionChanges, _UnchangedTarget
from odradek.wire.protocol.api import ApiKey
from tests.support.loop import run
from tests.support.replica_chaos import InvariantBroken, ReplicaChaos
from tests.support.replicas import ReplicaCluster, ReplicaNode, follower_states
from tests.support.session_changes import wrong_changes

PARTITIONS = 60
SEEDS_FOR_A_BUG = 60


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The partitions that leaders looked at for followers."""
    seen: list[int] = []
    mark, read = FollowerReading._mark_unchanged, FollowerReading._read_one

    def counted_mark(self: FollowerReading, changes: SessionChanges, target: FetchTarget) -> bool:
        seen.append(target.index)
        return mark(self, changes, target)

    def counted_read(self: FollowerReading, target: FetchTarget, fetched: Fetched) -> None:
        seen.append(target.index)
        read(self, target, fetched)

    monkeypatch.setattr(FollowerReading, "_mark_unchanged", counted_mark)
    monkeypatch.setattr(FollowerReading, "_read_one", counted_read)
    yield seen


def _changes(node: ReplicaNode) -> list[SessionChanges]:
    return [session.changes for session in node.parts.fetch.fetch_sessions if session.changes is not None]


async def test_a_lone_record_costs_by_its_partition_alone(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[int] = []
    position = ReplicaFetcher._position

    def counted(self: ReplicaFetcher, key: Key) -> object:
        places.append(key[1])
        return position(self, key)

    cluster = await ReplicaCluster.start(partitions=PARTITIONS, replicas=(1, 2, 3))
    await asyncio.sleep(3)
    assert all(
        not changes.changed and len(changes.unchanged) == PARTITIONS for changes in _changes(cluster.nodes[1])
    )
    assert len(_changes(cluster.nodes[1])) == 2
    monkeypatch.setattr(ReplicaFetcher, "_position", counted)
    looks.clear()
    await asyncio.sleep(20)
    assert not looks and not places, "where nothing happens nothing is looked at"
    assert (await cluster.produce(1, b"v", index=7)).error_code == 0
    await asyncio.sleep(3)
    assert set(looks) == set(places) == {7} and len(looks) < 20
    assert cluster.nodes[3].partition(7).high_watermark == 1
    assert wrong_changes(cluster.nodes[1].parts.fetch) == ""


async def test_an_idle_follower_stays_in_sync_and_a_silent_one_leaves() -> None:
    cluster = await ReplicaCluster.start(replica_lag_time_max_ms="2000", partitions=4, replicas=(1, 2, 3))
    await asyncio.sleep(20)
    leader = cluster.nodes[1].partition(2)
    assert all(len(changes.unchanged) == 4 for changes in _changes(cluster.nodes[1]))
    # It has fetched all the time, though nothing checked it.
    caught_up_at = follower_states(leader).known[3].caught_up_at
    assert asyncio.get_running_loop().time() - caught_up_at < 1
    cluster.disconnect(1, 3)
    before = asyncio.get_running_loop().time()
    assert (await cluster.produce(1, b"v", index=2)).error_code == 0
    waited = asyncio.get_running_loop().time() - before
    assert waited > 1, "the record waits for it for as long as it may lag"
    assert 3 not in leader.replica.in_sync_replicas
    assert follower_states(leader).known[3].caught_up_at < before + 1


async def test_each_partition_has_its_turn_when_answers_are_small() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2, replica_fetch_response_max_bytes="1000", partitions=12, replicas=(1, 2)
    )
    await asyncio.sleep(2)
    follower = cluster.nodes[2]
    for _ in range(6):
        for index in range(12):
            await cluster.produce(1, b"v" * 900, index=index, acks=1)
    lows = []
    while True:
        ends = [follower.partition(index).log.log_end_offset for index in range(12)]
        lows.append(max(ends) - min(ends))
        if min(ends) == 6:
            break
        await asyncio.sleep(0.002)
    assert max(lows) <= 2, "none is far ahead of the others"


async def test_bytes_of_many_partitions_add_up_while_a_fetch_waits() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2,
        replica_fetch_min_bytes="900",
        replica_fetch_wait_max_ms="9000",
        partitions=6,
        replicas=(1, 2),
    )
    # Two waits in vain, after which all is unchanged.
    await asyncio.sleep(30)
    assert [len(changes.unchanged) for changes in _changes(cluster.nodes[1])] == [6]
    follower = cluster.nodes[2]
    for index in (1, 1, 4):
        await cluster.produce(1, b"v" * 200, index=index, acks=1)
    await asyncio.sleep(1)
    assert follower.partition(1).log.log_end_offset == 0
    await cluster.produce(1, b"v" * 200, index=4, acks=1)
    await asyncio.sleep(0.1)
    assert [follower.partition(index).log.log_end_offset for index in (1, 4)] == [2, 2]


async def test_a_moved_start_is_sent_both_ways_without_a_record() -> None:
    cluster = await ReplicaCluster.start(brokers=2, partitions=3, replicas=(1, 2))
    for _ in range(5):
        await cluster.produce(1, b"v", index=1)
    await asyncio.sleep(5)
    leader, follower = (cluster.nodes[one].partition(1) for one in (1, 2))
    leader.require_leader().delete_records(3)
    assert wrong_changes(cluster.nodes[1].parts.fetch) == ""
    await asyncio.sleep(2)
    assert follower.log.log_start_offset == 3 and leader.require_leader().low_watermark == 3
    # Retention of its own moves a follower's start too.
    follower.replica.advance_log_start(4)
    follower._callbacks.log_start_moved(follower)
    await asyncio.sleep(2)
    assert follower_states(leader).known[2].log_start_offset == 4
    assert wrong_changes(cluster.nodes[1].parts.fetch) == ""


async def test_ended_sessions_leave_no_listener() -> None:
    cluster = await ReplicaCluster.start(partitions=5, replicas=(1, 2, 3))
    leader = cluster.nodes[1]
    for _ in range(3):
        await asyncio.sleep(3)
        await cluster.kill_node(3)
        cluster.start_node(3)
    await asyncio.sleep(3)
    assert wrong_changes(leader.parts.fetch) == ""
    for session in list(leader.parts.fetch.fetch_sessions):
        leader.parts.fetch.fetch_sessions.remove(session.id)
    assert not any(
        isinstance(one, _UnchangedTarget)
        for partition in leader.partitions
        for one in partition.replica.log_end_watch.waiting
    )


def _only_wakes(self: _UnchangedTarget) -> None:
    """A bug: what happens at an unchanged partition is not noted."""


def _forget_roles(patch: pytest.MonkeyPatch) -> None:
    """No subscriber learns of another in-sync set."""
    patch.setattr(Replica, "notify_followers", lambda _: None)


def _forget_records(patch: pytest.MonkeyPatch) -> None:
    """A fetch is woken by records and does not look where they are."""
    patch.setattr(_UnchangedTarget, "state_changed", _only_wakes)


def _leave_fetches_deaf(patch: pytest.MonkeyPatch) -> None:
    """A fetch that waits learns nothing more of a partition that was noted."""
    patch.setattr(WaitingFetch, "watch_also", lambda *_: None)


@pytest.mark.thorough
@pytest.mark.parametrize("plant", [_forget_roles, _forget_records, _leave_fetches_deaf])
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    async def one_run(seed: int) -> None:
        async with ReplicaCluster(seed=seed, replica_lag_time_max_ms="2000") as cluster:
            await cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
            await ReplicaChaos(cluster).run(60)

    for seed in range(SEEDS_FOR_A_BUG):
        try:
            run(one_run(seed))
        except InvariantBroken:
            return
    pytest.fail(f"{SEEDS_FOR_A_BUG} seeds did not find it")


async def test_deleting_records_wakes_a_follower_at_once() -> None:
    cluster = await ReplicaCluster.start(
        brokers=2, replica_fetch_wait_max_ms="9000", partitions=2, replicas=(1, 2)
    )
    for _ in range(3):
        await cluster.produce(1, b"v", index=1)
    # Two waits in vain, after which all is unchanged.
    await asyncio.sleep(30)
    assert [len(changes.unchanged) for changes in _changes(cluster.nodes[1])] == [2]
    answer = await cluster.nodes[1].ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "t", "partitions": [{"partition_index": 1, "offset": 2}]}],
        timeout=5000,
    )
    assert answer.topics[0].partitions[0].error_code == 0
    assert cluster.nodes[2].partition(1).log.log_start_offset == 2
