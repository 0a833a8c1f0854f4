"""The cluster knows brokers that are away: replicas are placed there, until the broker is removed."""

from __future__ import annotations

import pytest

from odradek.foundation.errors import (
    BrokerIdNotRegistered,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    RequestError,
)
from odradek.metadata.controller.partition_reassignment import PartitionReassignment
from odradek.metadata.controller.requests import (
    CreateOutcome,
    NewPartitionReassignment,
    NewPartitions,
    NewTopic,
    TopicMetadataAndConfig,
)
from odradek.metadata.image import paths
from tests.metadata.controller.test_leadership import T0, Cluster


async def create(cluster: Cluster, name: str = "t", *, partitions: int = 6, factor: int = 3) -> CreateOutcome:
    (outcome,) = await cluster.controller.create_topics([NewTopic(name, partitions, factor)])
    return outcome


async def check_two_of_three_lead(cluster: Cluster, name: str = "t") -> None:
    """Broker 3 is away, and has a replica of each partition."""
    for one in cluster.images.current.topics[name].partitions:
        assert set(one.replicas) == {1, 2, 3}
        assert one.leader == one.replicas[0]
        assert one.isr == one.replicas[:2]
        assert set(one.isr) == {1, 2}
        assert one.elr == one.last_known_elr == ()
    await cluster.check_registry()


async def test_a_topic_has_a_replica_on_a_broker_that_is_away() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.leave(3)
    assert isinstance(await create(cluster), TopicMetadataAndConfig)
    await check_two_of_three_lead(cluster)
    # It has an empty log, as they may have by now too; its leader takes it in.
    await cluster.join(3, stopped_cleanly=False)
    leader = cluster.state().leader
    outcome = await cluster.propose(leader, T0, *cluster.state().isr, 3)
    assert not isinstance(outcome, RequestError)
    assert set(outcome.isr) == {1, 2, 3}


async def test_a_topic_grows_onto_a_broker_that_is_away() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await create(cluster, partitions=1)
    await cluster.leave(3)
    (outcome,) = await cluster.controller.create_partitions([NewPartitions("t", 4)])
    assert outcome is None
    grown = cluster.images.current.topics["t"].partitions[1:]
    assert [set(one.replicas) for one in grown] == [{1, 2, 3}] * 3
    assert [set(one.isr) for one in grown] == [{1, 2}] * 3
    given = NewPartitions("t", 6, [[3, 1, 2], [2, 3, 1]])
    assert await cluster.controller.create_partitions([given]) == [None]
    assert cluster.led()[4:] == [(1, (1, 2)), (2, (2, 1))]


async def test_an_assignment_needs_one_broker_that_is_there() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.leave(3)
    await cluster.make_topic([3, 1], [2, 3])
    assert cluster.led() == [(1, (1,)), (2, (2,))]
    for assignment in ({0: (1,), 1: (3,)}, {0: (3,)}):
        (outcome,) = await cluster.controller.create_topics([NewTopic("u", assignment=assignment)])
        assert isinstance(outcome, InvalidReplicaAssignment)
        assert "are fenced or in controlled shutdown" in str(outcome)
    (unknown,) = await cluster.controller.create_topics([NewTopic("u", assignment={0: (1, 9)})])
    assert isinstance(unknown, InvalidReplicaAssignment)
    (growth,) = await cluster.controller.create_partitions([NewPartitions("t", 3, [[3, 9]])])
    assert isinstance(growth, InvalidReplicaAssignment)


async def test_an_internal_topic_has_its_factor_while_a_broker_is_away() -> None:
    cluster = await Cluster.start(1, 2, 3, entries={"offsets.topic.num.partitions": "2"})
    await cluster.leave(3)
    await cluster.controller.ensure_topic("__consumer_offsets")
    await check_two_of_three_lead(cluster, "__consumer_offsets")


async def test_a_broker_that_stops_is_given_no_leadership() -> None:
    cluster = await Cluster.start(1, 2, 3)
    cluster.controller.find_eligible = cluster.leadership.eligible
    await cluster.leadership.shut_down_broker(3, broker_epoch=cluster.images.current.brokers[3].epoch)
    await create(cluster)
    await check_two_of_three_lead(cluster)


async def test_without_any_broker_no_topic_is_made() -> None:
    cluster = await Cluster.start(1)
    await cluster.leave(1)
    outcome = await create(cluster, factor=1)
    assert isinstance(outcome, InvalidReplicationFactor)
    assert "All brokers are currently fenced" in str(outcome)


async def test_the_next_controller_knows_the_brokers_that_are_away() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.leave(3)
    await cluster.controller.stop()
    successor = Cluster.of_registry(cluster.registry)
    await successor.controller.start()
    await successor.leadership.refresh_brokers()
    assert list(successor.images.current.fenced_brokers) == [3]
    await create(successor)
    await check_two_of_three_lead(successor)


async def test_brokers_of_an_earlier_release_become_known() -> None:
    """Its controllers followed their registrations, and wrote none of them down."""
    cluster = await Cluster.start(1, 2)
    store = cluster.leadership._store
    for broker_id in (1, 2):
        await store.delete(paths.registration(broker_id))
    await store.delete(paths.REGISTRATIONS)
    await cluster.controller.stop()
    successor = Cluster.of_registry(cluster.registry)
    await successor.controller.start()
    await successor.leadership.refresh_brokers()
    assert successor.images.current.registrations == successor.images.current.brokers
    assert sorted(successor.images.current.brokers) == [1, 2]


async def test_partitions_move_to_a_broker_that_is_away_as_to_any_other() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.make_topic([1, 2])
    await cluster.leave(3)
    moves = PartitionReassignment(cluster.leadership, cluster.images)
    (outcome,) = await moves.reassign([NewPartitionReassignment(T0, (1, 3))], may_change_factor=False)
    assert outcome is None
    assert cluster.state().adding == (3,)
    assert set(cluster.state().isr) == {1, 2}
    await cluster.join(3)
    await cluster.propose(1, T0, 1, 2, 3)
    assert cluster.state()[3:5] == ((1, 3), (1, 3))


async def test_a_removed_broker_is_given_nothing() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.leave(3)
    await cluster.leadership.unregister_broker(3)
    assert isinstance(await create(cluster), InvalidReplicationFactor)
    assert isinstance(await create(cluster, factor=2), TopicMetadataAndConfig)
    (outcome,) = await cluster.controller.create_topics([NewTopic("u", assignment={0: (1, 3)})])
    assert isinstance(outcome, InvalidReplicaAssignment)
    await cluster.check_registry()
    # Nothing keeps it from coming back.
    await cluster.join(3)
    await cluster.leave(3)
    assert list(cluster.images.current.fenced_brokers) == [3]


async def test_a_broker_is_not_removed_while_it_is_alive_or_has_replicas() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2], [2, 1])
    with pytest.raises(InvalidRequest, match="broker 2 is alive; stop it first"):
        await cluster.leadership.unregister_broker(2)
    await cluster.leave(2)
    with pytest.raises(InvalidRequest, match="broker 2 still has 2 replicas; move them"):
        await cluster.leadership.unregister_broker(2)
    with pytest.raises(BrokerIdNotRegistered, match="9 is not currently registered"):
        await cluster.leadership.unregister_broker(9)
    assert list(cluster.images.current.fenced_brokers) == [2]
