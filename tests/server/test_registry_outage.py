"""The registry is away: leaders that all others follow continue, with groups and new producers; others stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from odradek.broker.coordination.internal_topic import ReplicatedTopicLog
from odradek.broker.replication import confirmation
from odradek.broker.replication import leader as leader_role
from odradek.broker.replication.confirmation import NEVER, Proof
from odradek.broker.replication.inter_broker_client import InterBrokerClient
from odradek.metadata.image.image import NO_LEADER
from odradek.metadata.image.registration import BrokerRegistration
from odradek.wire.protocol.api import ApiKey
from tests.server.test_leadership_check import fetch
from tests.support.loop import run
from tests.support.whole_cluster import SESSION_SECONDS, ClusterBroker, WholeCluster

NOT_LEADER_OR_FOLLOWER, NOT_COORDINATOR = 6, 16
LATEST = -1
SILENT_SECONDS = SESSION_SECONDS + 1


async def begin(**entries: str) -> tuple[WholeCluster, int]:
    """Three brokers and the leader of the only partition of `t`, which all three have."""
    cluster = await WholeCluster.start(
        entries={"offsets.topic.num.partitions": "1", "replica.lag.time.max.ms": "3000"}
        | {key.replace("_", "."): text for key, text in entries.items()}
    )
    assert await cluster.create_topic("t", partitions=1, replicas=3) == 0
    await cluster.until(lambda: all("t" in cluster.image(one).topics for one in cluster.brokers))
    await cluster.until(lambda: cluster.leaders("t", seen_by=1)[0] != NO_LEADER)
    (leader,) = cluster.leaders("t", seen_by=1)
    assert (await cluster.produce(leader, "t", 0, b"a", acks=-1)).error_code == 0
    return cluster, leader


async def registry_leaves(cluster: WholeCluster) -> None:
    cluster.registry.leave()
    await asyncio.sleep(SILENT_SECONDS)
    assert all(broker.control.outage.is_ongoing for broker in cluster.brokers.values())


async def registry_comes_back(cluster: WholeCluster, *, with_sessions: bool = True) -> None:
    cluster.registry.come_back(with_sessions=with_sessions, reconnect_seconds=lambda: 0.1)
    await cluster.until(lambda: cluster.active is not None)
    await cluster.until(
        lambda: not any(broker.control.outage.is_ongoing for broker in cluster.brokers.values())
    )
    await cluster.until(
        lambda: not any(broker.control.membership.is_fenced for broker in cluster.brokers.values())
    )


async def end_offset(cluster: WholeCluster, broker_id: int) -> tuple[int, int]:
    """Error and latest offset."""
    answer = await cluster.ask(
        broker_id,
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": "t",
                "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}],
            }
        ],
    )
    row = answer.topics[0].partitions[0]
    return int(row.error_code), int(row.offset)


async def producer_id(cluster: WholeCluster, broker_id: int) -> tuple[int, int]:
    answer = await cluster.ask(
        broker_id,
        ApiKey.INIT_PRODUCER_ID,
        4,
        transactional_id=None,
        transaction_timeout=1_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    return int(answer.error_code), int(answer.producer_id)


def cut_off(cluster: WholeCluster, broker_id: int) -> None:
    """From all brokers and controllers, not from clients."""
    host = cluster.host(broker_id)
    for other in [cluster.host(one) for one in (*cluster.brokers, *cluster.controllers) if one != broker_id]:
        cluster.network.part(host, other)


def partition(cluster: WholeCluster, broker_id: int) -> Any:
    return cluster.brokers[broker_id].partitions.get("t", 0)


@pytest.mark.thorough
async def test_everything_goes_on_while_the_registry_is_away_for_everybody() -> None:
    cluster, leader = await begin()
    coordinator = await cluster.coordinator("g", through=1)
    assert await cluster.commit_offset(coordinator, 1) == 0
    epoch = partition(cluster, leader).leader_epoch
    await registry_leaves(cluster)
    assert cluster.active is None
    began = asyncio.get_running_loop().time()
    for number in range(240):
        for acks in (-1, 1):
            assert (await cluster.produce(leader, "t", 0, b"v", acks=acks)).error_code == 0
        assert await cluster.commit_offset(coordinator, number) == 0
        assert await cluster.committed_offset(coordinator) == (0, number)
        await asyncio.sleep(0.5)
    assert asyncio.get_running_loop().time() - began < 240 * 0.6, "nothing waited"
    for broker_id, broker in cluster.brokers.items():
        error, number = await producer_id(cluster, broker_id)
        assert (error, number >= 0) == (0, True)
        assert broker.not_ready() is None
        assert broker.control.membership.fenced_times == 0
    assert (await fetch(cluster, leader, 0)).error_code == 0
    assert await end_offset(cluster, leader) == (0, 481)
    await registry_comes_back(cluster)
    assert [broker.control.membership.fenced_times for broker in cluster.brokers.values()] == [0, 0, 0]
    assert partition(cluster, leader).leader_epoch == epoch, "nobody steps down for a new controller"
    assert (await cluster.produce(leader, "t", 0, b"w", acks=-1)).error_code == 0


async def test_all_register_again_after_a_pause_of_the_registry_without_a_loss() -> None:
    cluster, leader = await begin()
    await registry_leaves(cluster)
    assert (await cluster.produce(leader, "t", 0, b"b", acks=-1)).error_code == 0
    await registry_comes_back(cluster, with_sessions=False)
    assert [broker.control.membership.fenced_times for broker in cluster.brokers.values()] == [1, 1, 1]
    while (await cluster.produce(leader, "t", 0, b"c", acks=-1)).error_code != 0:
        await asyncio.sleep(0.05)
        await cluster.until(lambda: cluster.leaders("t", seen_by=1)[0] != NO_LEADER)
        (leader,) = cluster.leaders("t", seen_by=1)
    assert partition(cluster, leader).log.log_end_offset == 3


async def test_a_leader_that_is_cut_off_alone_stops_and_is_told() -> None:
    """Clients that wait there are answered, too."""
    cluster, old = await begin()
    cut_off(cluster, old)
    cluster.stores[cluster.host(old)].sever()
    waiting = asyncio.create_task(cluster.produce(old, "t", 0, b"lost", acks=-1))
    await cluster.until(lambda: cluster.brokers[old].control.outage.is_ongoing)
    async with asyncio.timeout(2):
        assert (await waiting).error_code == NOT_LEADER_OR_FOLLOWER
    for acks in (-1, 1):
        assert (await cluster.produce(old, "t", 0, b"x", acks=acks)).error_code == NOT_LEADER_OR_FOLLOWER
    assert (await fetch(cluster, old, 0)).error_code == NOT_LEADER_OR_FOLLOWER
    assert await end_offset(cluster, old) == (NOT_LEADER_OR_FOLLOWER, -1)
    assert cluster.brokers[old].not_ready() is not None
    other = next(one for one in cluster.brokers if one != old)
    await cluster.until(lambda: cluster.leaders("t", seen_by=other)[0] not in (old, NO_LEADER))
    (new,) = cluster.leaders("t", seen_by=other)
    assert (await cluster.produce(new, "t", 0, b"b", acks=-1)).error_code == 0
    cluster.network.heal()
    cluster.stores[cluster.host(old)].mend()
    await cluster.until(lambda: len(partition(cluster, new).replica.in_sync_replicas) == 3)
    assert cluster.brokers[old].not_ready() is None
    assert (await fetch(cluster, new, 0)).error_code == 0


async def test_a_partition_is_confirmed_again_when_its_followers_return() -> None:
    cluster, leader = await begin()
    coordinator = await cluster.coordinator("g", through=1)
    assert await cluster.commit_offset(coordinator, 7) == 0
    await registry_leaves(cluster)
    for broker_id in cluster.brokers:
        cut_off(cluster, broker_id)
    await asyncio.sleep(3)
    assert (await cluster.produce(leader, "t", 0, b"x", acks=1)).error_code == NOT_LEADER_OR_FOLLOWER
    assert await cluster.commit_offset(coordinator, 8) == NOT_COORDINATOR
    assert (await cluster.committed_offset(coordinator))[0] == NOT_COORDINATOR
    assert cluster.brokers[leader].not_ready() is not None
    cluster.network.heal()
    await cluster.until(lambda: bool(partition(cluster, leader).leader.is_confirmed))
    assert (await cluster.produce(leader, "t", 0, b"x", acks=1)).error_code == 0
    await cluster.until(lambda: cluster.brokers[leader].not_ready() is None)
    await asyncio.sleep(2)
    assert await cluster.commit_offset(coordinator, 9) == 0
    assert await cluster.committed_offset(coordinator) == (0, 9)
    await registry_comes_back(cluster)
    assert [broker.control.membership.fenced_times for broker in cluster.brokers.values()] == [0, 0, 0]


async def test_a_late_question_of_a_follower_does_not_confirm_a_leader() -> None:
    """What a follower sent before it learned of its election arrives minutes later.

    Followers close the connection when they learn of it. Bytes that were on the way then arrive all the same, which the
    network in memory does not have. So the connections stay open here.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterBrokerClient, "_image_changed", lambda *_: None)
        await _ask_a_leader_late()


async def _ask_a_leader_late() -> None:
    cluster, old = await begin()
    host = cluster.host(old)
    others = [one for one in cluster.brokers if one != old]
    # Followers' requests leave, and arrive when the outage is over; answers still arrive.
    for other in others:
        cluster.network.part_one_way(cluster.host(other), host)
    for controller in cluster.controllers:
        cluster.network.part(host, cluster.host(controller))
    cluster.stores[host].sever()
    await cluster.until(lambda: cluster.leaders("t", seen_by=others[0])[0] not in (old, NO_LEADER))
    await cluster.until(lambda: cluster.brokers[old].control.outage.is_ongoing)
    await asyncio.sleep(5)
    outcomes = []

    async def watch() -> None:
        while cluster.brokers[old].control.outage.is_ongoing:
            outcomes.append(bool(partition(cluster, old).leader.is_confirmed))
            await asyncio.sleep(0.0005)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    for other in others:
        cluster.network.rejoin(host, cluster.host(other))
    await asyncio.sleep(3)
    assert outcomes and not any(outcomes)
    cluster.network.heal()
    cluster.stores[host].mend()
    await watching
    await cluster.until(lambda: not cluster.brokers[old].control.membership.is_fenced)


async def test_who_may_be_elected_has_to_follow_too() -> None:
    cluster, leader = await begin()
    await registry_leaves(cluster)
    replica = partition(cluster, leader)
    follower, other = (one for one in cluster.brokers if one != leader)
    await cluster.until(lambda: bool(replica.leader.is_confirmed))
    cluster.network.part(cluster.host(leader), cluster.host(other))
    await asyncio.sleep(3)
    assert not replica.leader.is_confirmed, "one of the in-sync set does not follow"
    followers = replica.leader.followers
    # The same with each set in which it may stand.
    replica.replica.in_sync_replicas, followers.in_sync = (
        (leader, follower),
        frozenset({leader, follower}),
    )
    followers.proposed = None
    assert replica.leader.is_confirmed
    followers.proposed = frozenset({leader, follower, other})
    assert not replica.leader.is_confirmed
    followers.proposed = None
    replica.replica.eligible_replicas = (other,)
    assert not replica.leader.is_confirmed
    replica.replica.eligible_replicas = ()
    replica.replica.is_unclean_election_allowed = True
    assert not replica.leader.is_confirmed
    replica.replica.is_unclean_election_allowed = False
    assert replica.leader.is_confirmed
    cluster.network.heal()
    await registry_comes_back(cluster)


@pytest.mark.thorough
async def test_a_partition_without_another_candidate_continues_disconnected() -> None:
    cluster, _ = await begin()
    assert await cluster.create_topic("alone", partitions=1, replicas=1) == 0
    await cluster.until(lambda: all("alone" in cluster.image(one).topics for one in cluster.brokers))
    await cluster.until(lambda: cluster.leaders("alone", seen_by=1)[0] != NO_LEADER)
    (keeper,) = cluster.leaders("alone", seen_by=1)
    cut_off(cluster, keeper)
    cluster.stores[cluster.host(keeper)].sever()
    await asyncio.sleep(SILENT_SECONDS + 60)
    broker: ClusterBroker = cluster.brokers[keeper]
    assert broker.control.outage.is_ongoing
    assert broker.not_ready() is None
    assert (await cluster.produce(keeper, "alone", 0, b"v", acks=-1)).error_code == 0
    cluster.network.heal()
    cluster.stores[cluster.host(keeper)].mend()
    await cluster.until(lambda: cluster.leaders("alone", seen_by=keeper) == [keeper])
    assert (await cluster.produce(keeper, "alone", 0, b"w", acks=-1)).error_code == 0
    assert broker.partitions.get("alone", 0).log.log_end_offset == 2


async def test_a_dead_replica_stops_its_partitions_until_the_registry_answers() -> None:
    cluster, leader = await begin()
    await registry_leaves(cluster)
    follower = next(one for one in cluster.brokers if one != leader)
    await cluster.kill_broker(follower)
    await asyncio.sleep(60)
    assert (await cluster.produce(leader, "t", 0, b"x", acks=1)).error_code == NOT_LEADER_OR_FOLLOWER
    await registry_comes_back(cluster)
    await cluster.until(lambda: len(partition(cluster, leader).replica.in_sync_replicas) == 2)
    assert (await cluster.produce(leader, "t", 0, b"x", acks=-1)).error_code == 0


# --- these tests have teeth ------------------------------------------------------------------------------------------


def _count_from_arrival(patch: pytest.MonkeyPatch) -> None:
    """A question of a follower counts from when it arrives."""

    def asked_again(self: Proof) -> None:
        self.as_of = asyncio.get_running_loop().time()

    patch.setattr(Proof, "note_next_fetch", asked_again)


def _forget(patch: pytest.MonkeyPatch, forgotten: str, instead: Any = ()) -> None:
    electable = confirmation.others_electable
    patch.setattr(leader_role, "others_electable", lambda **sets: electable(**{**sets, forgotten: instead}))


def _never_expire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_role, "is_fresh", lambda as_of, **_: as_of > NEVER)


def _let_clients_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_role.Leader, "fail_waiting_clients", lambda self: None)


def _fence_by_silence(patch: pytest.MonkeyPatch) -> None:
    """As it was before."""
    patch.setattr(BrokerRegistration, "_on_silence", BrokerRegistration._on_lost)


def _answer_groups_of_others(patch: pytest.MonkeyPatch) -> None:
    def is_ready(self: ReplicatedTopicLog, partition: int) -> bool:
        return self._partitions.find("__consumer_offsets", partition) is not None

    patch.setattr(ReplicatedTopicLog, "is_ready", is_ready)


BUGS: list[tuple[str, Callable[[pytest.MonkeyPatch], None], Callable[[], Coroutine[Any, Any, None]]]] = [
    ("arrival", _count_from_arrival, test_a_late_question_of_a_follower_does_not_confirm_a_leader),
    ("in sync", partial(_forget, forgotten="in_sync"), test_a_leader_that_is_cut_off_alone_stops_and_is_told),
    ("proposed", partial(_forget, forgotten="proposed"), test_who_may_be_elected_has_to_follow_too),
    ("eligible", partial(_forget, forgotten="eligible"), test_who_may_be_elected_has_to_follow_too),
    (
        "unclean",
        partial(_forget, forgotten="is_unclean_allowed", instead=False),
        test_who_may_be_elected_has_to_follow_too,
    ),
    ("for ever", _never_expire, test_a_leader_that_is_cut_off_alone_stops_and_is_told),
    ("waiting", _let_clients_wait, test_a_leader_that_is_cut_off_alone_stops_and_is_told),
    ("fenced", _fence_by_silence, test_everything_goes_on_while_the_registry_is_away_for_everybody),
    (
        "groups",
        _answer_groups_of_others,
        test_a_partition_is_confirmed_again_when_its_followers_return,
    ),
]


@pytest.mark.parametrize(("plant", "finds"), [bug[1:] for bug in BUGS], ids=[bug[0] for bug in BUGS])
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    finds: Callable[[], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError)):
        run(finds())
