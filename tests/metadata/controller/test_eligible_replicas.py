"""Replicas that may lead besides the in-sync set: the rules alone, and a controller's use of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.foundation.errors import RequestError
from odradek.foundation.ids import TopicPartition
from odradek.metadata.controller import leader_election
from odradek.metadata.controller.eligible_replicas import min_in_sync, remember_eligible
from odradek.metadata.controller.requests import NewTopic, Resource
from odradek.metadata.image.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, ResourceKind
from tests.metadata.controller.test_leadership import Cluster

WHERE = TopicPartition("t", 0)


def partition(
    isr: tuple[int, ...], *, leader: int = 1, elr: tuple[int, ...] = (), last: tuple[int, ...] = ()
) -> PartitionImage:
    return PartitionImage(
        partition=0,
        leader=leader,
        leader_epoch=4,
        replicas=(1, 2, 3),
        isr=isr,
        partition_epoch=7,
        elr=elr,
        last_known_elr=last,
    )


# --- the rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "isr", "lost", "elr", "last"),
    [
        pytest.param(partition((1, 2, 3)), (1, 2), (), (), (), id="enough are left"),
        pytest.param(partition((1, 2)), (1,), (), (2,), (), id="it becomes too small"),
        pytest.param(partition((1, 2, 3)), (1,), (), (2, 3), (), id="two leave at once"),
        pytest.param(partition((1,), elr=(2,)), (1,), (), (2,), (), id="nothing changes"),
        pytest.param(partition((1,), elr=(2,)), (1, 3), (), (), (), id="enough are in sync again"),
        pytest.param(partition((1, 2)), (1,), (2,), (), (2,), id="one that lost its memory"),
        pytest.param(partition((1,), last=(2,)), (3,), (), (1,), (2,), id="what was known stays known"),
    ],
)
def test_members_that_leave_a_small_set_are_eligible(
    before: PartitionImage,
    isr: tuple[int, ...],
    lost: tuple[int, ...],
    elr: tuple[int, ...],
    last: tuple[int, ...],
) -> None:
    after = remember_eligible(before, before._replace(isr=isr), min_in_sync=2, lost=lost)
    assert (after.isr, after.elr, after.last_known_elr) == (isr, elr, last)


def test_a_replica_that_is_moved_away_is_eligible_no_more() -> None:
    before = partition((1,), elr=(2, 3))
    after = remember_eligible(before, before._replace(replicas=(1, 3)), min_in_sync=2)
    assert (after.elr, after.last_known_elr) == ((3,), ())


def test_no_more_need_to_be_in_sync_than_there_are_replicas() -> None:
    before = partition((1,), elr=(2,))._replace(replicas=(1, 2))
    after = remember_eligible(before, before._replace(replicas=(1,)), min_in_sync=2)
    assert after.elr == ()
    # One that only comes does not count, for the leader neither.
    coming = partition((1,))._replace(replicas=(1, 2), adding=(2,), elr=(2,))
    assert remember_eligible(coming, coming, min_in_sync=2).elr == ()


def test_an_eligible_replica_leads_when_none_in_sync_is_live() -> None:
    after = leader_election.elect_leader(partition((1,), elr=(3, 2)), live={2, 3})
    assert after is not None
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), 5)


def test_those_in_sync_go_before_the_eligible() -> None:
    after = leader_election.elect_leader(partition((1, 3), elr=(2,)), live={2, 3})
    assert after is not None
    assert (after.leader, after.isr) == (3, (3,))


def test_an_unclean_election_prefers_the_last_known_eligible() -> None:
    after = leader_election.elect_leader(partition((1,), last=(3,)), live={2, 3}, unclean=True)
    assert after is not None
    assert (after.leader, after.isr) == (3, (3,))


def test_the_last_in_sync_waits_for_an_eligible_one_after_a_loss() -> None:
    after = leader_election.after_unclean_stop(partition((1,), elr=(3,)), 1, live={1, 2})
    assert after is not None
    assert (after.leader, after.isr, after.elr) == (NO_LEADER, (), (3,))


def test_the_last_of_all_leads_on_with_what_it_has() -> None:
    assert leader_election.after_unclean_stop(partition((1,)), 1, live={1, 2}) is None
    after = leader_election.after_unclean_stop(partition((), leader=NO_LEADER, elr=(3,)), 3, live={3})
    assert after is not None
    assert (after.leader, after.isr) == (3, (3,))


# --- how many have to be in sync -----------------------------------------------------------------------------------


def image(
    brokers: dict[int, int], configs: dict[tuple[ResourceKind, str], str] | None = None
) -> ClusterImage:
    return ClusterImage(
        brokers={
            number: BrokerImage(number, {}, None, number, min_in_sync=value)
            for number, value in brokers.items()
        },
        configs={key: {"min.insync.replicas": text} for key, text in (configs or {}).items()},
    )


def test_the_leaders_min_insync_replicas_counts() -> None:
    topic, broker = (ResourceKind.TOPIC, "t"), ResourceKind.BROKER
    assert min_in_sync(image({}), "t", 1) == 1
    assert min_in_sync(image({1: 2, 2: 3}), "t", 2) == 3
    assert min_in_sync(image({1: 1, 2: 3}, {topic: "2"}), "t", 1) == 2
    assert min_in_sync(image({1: 3, 2: 3}, {(broker, "<default>"): "2"}), "t", 1) == 2
    assert min_in_sync(image({1: 3, 2: 3}, {(broker, "<default>"): "2", (broker, "2"): "1"}), "t", 2) == 1


# --- a controller -----------------------------------------------------------------------------------------------------


async def three(config: dict[str, str] | None = None) -> Cluster:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.make_topic([1, 2, 3], config=config or {"min.insync.replicas": "2"})
    return cluster


def of(cluster: Cluster) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    state = cluster.state()
    return state.leader, state.isr, state.elr, state.last_known_elr


async def test_a_leader_that_lost_records_waits_for_one_that_has_more() -> None:
    cluster = await three()
    # The leader loses power; before its session ends the others are killed, and then it is back.
    await cluster.leave(2)
    await cluster.leave(3)
    assert of(cluster) == (1, (1,), (3,), ())
    await cluster.leave(1, look=False)
    await cluster.join(1, stopped_cleanly=False)
    assert of(cluster) == (NO_LEADER, (), (3,), (1,))
    await cluster.join(2)
    assert cluster.state().leader == NO_LEADER
    await cluster.join(3)
    assert of(cluster) == (3, (3,), (), (1,))
    assert not isinstance(await cluster.propose(3, WHERE, 3, 1), RequestError)
    assert of(cluster) == (3, (3, 1), (), ())
    await cluster.check_registry()


async def test_one_that_lags_stays_eligible_until_enough_are_in_sync() -> None:
    cluster = await three()
    await cluster.propose(1, WHERE, 1)
    assert of(cluster) == (1, (1,), (2, 3), ())
    await cluster.leave(1)
    assert of(cluster) == (2, (2,), (1, 3), ())
    await cluster.propose(2, WHERE, 2, 3)
    assert of(cluster) == (2, (2, 3), (), ())
    await cluster.check_registry()


async def test_the_registry_holds_eligible_replicas() -> None:
    cluster = await three()
    await cluster.leave(2, 3)
    await cluster.check_registry()
    assert of(cluster) == (1, (1,), (2, 3), ())


async def test_no_eligible_replica_is_removed_without_a_leader() -> None:
    cluster = await Cluster.start(1, 2, 3)
    # Not the topic's own: each broker reports the value that it was started with.
    await cluster.make_topic([1, 2, 3], config={})
    for broker_id in (1, 2, 3):
        await cluster.leave(broker_id)
        await cluster.join(broker_id, min_in_sync=2)
        await cluster.propose(cluster.state().leader, WHERE, 1, 2, 3)
    await cluster.leave(2)
    await cluster.leave(3)
    await cluster.leave(1)
    assert of(cluster) == (NO_LEADER, (1,), (3,), ())
    await cluster.join(1, stopped_cleanly=False, min_in_sync=2)
    assert of(cluster) == (NO_LEADER, (), (3,), (1,))


async def alter(cluster: Cluster, resource: Resource, value: str) -> None:
    wanted = [(resource, {"min.insync.replicas": value})]
    assert await cluster.controller.alter_configs(wanted) == [None]


@pytest.mark.parametrize(
    "resource",
    [Resource(ResourceKind.TOPIC, "t"), Resource(ResourceKind.BROKER, "")],
    ids=["topic", "broker"],
)
async def test_a_smaller_min_insync_replicas_ends_eligibility_before_it_counts(resource: Resource) -> None:
    cluster = await Cluster.start(1, 2, 3)
    await alter(cluster, Resource(ResourceKind.BROKER, ""), "2")
    (outcome,) = await cluster.controller.create_topics([NewTopic(name="t", assignment={0: (1, 2, 3)})])
    assert not isinstance(outcome, RequestError)
    await cluster.leave(2)
    await cluster.leave(3)
    seen: list[tuple[tuple[int, ...], str]] = []
    is_set: Callable[[ClusterImage], str] = lambda image: image.config(  # noqa: E731
        resource.kind, "t" if resource.kind is ResourceKind.TOPIC else "<default>"
    ).get("min.insync.replicas", "")
    cluster.images.subscribe(lambda _, new: seen.append((new.topics["t"].partitions[0].elr, is_set(new))))
    assert of(cluster) == (1, (1,), (3,), ())
    await alter(cluster, resource, "3")
    assert of(cluster) == (1, (1,), (3,), ())
    await alter(cluster, resource, "1")
    assert of(cluster) == (1, (1,), (), ())
    # Never the new value together with replicas that only the old one made eligible.
    assert ((3,), "1") not in seen
    await cluster.check_registry()
