"""Leaders and in-sync sets follow the brokers that come and go, and the registry says what the image says."""

import asyncio
import logging
import uuid
from collections import Counter
from typing import Any

import pytest

from odradek.foundation import errors
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.metadata.controller import leader_election, partition_states
from odradek.metadata.controller.leadership import AlterPartitionData, Leadership
from odradek.metadata.controller.requests import NewTopic
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.change_log import ChangeLog
from odradek.metadata.image.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage
from odradek.metadata.image.image_building import apply
from odradek.metadata.registry.store import Put
from tests.support.lone_controller import LoneController
from tests.support.memory_registry import MemoryRegistry, MemoryStore, load_image

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """A controller, and brokers that are nothing but their registrations."""

    def __init__(self, controller: LoneController, registry: MemoryRegistry) -> None:
        self.controller = controller.controller
        self.images = controller.images
        self.registry = registry
        self.brokers: dict[int, MemoryStore] = {}
        self.epoch = 100
        self.leadership = Leadership(
            controller.store,
            controller.controller.writer,
            controller.images,
            controller.dynamic,
            controller.controller,
        )

    @classmethod
    async def start(cls, *broker_ids: int, entries: dict[str, str] | None = None) -> "Cluster":
        cluster = cls.of_registry(MemoryRegistry(), entries=entries)
        await cluster.controller.start()
        for broker_id in broker_ids:
            await cluster.join(broker_id)
        return cluster

    @classmethod
    def of_registry(cls, registry: MemoryRegistry, *, entries: dict[str, str] | None = None) -> "Cluster":
        """One that is yet to start."""
        return cls(LoneController(MemoryStore(registry), {"node.id": "100"} | (entries or {})), registry)

    async def join(
        self, broker_id: int, *, stopped_cleanly: bool = True, min_in_sync: int = 1, look: bool = True
    ) -> None:
        self.epoch += 1
        broker = BrokerImage(broker_id, {"P": ("h", 1)}, None, self.epoch, stopped_cleanly, min_in_sync)
        store = self.brokers[broker_id] = MemoryStore(self.registry)
        data = nodes.write_broker(broker, protocols={"P": "PLAINTEXT"}, wall_ms=0)
        await store.create(paths.broker(broker_id), data, ephemeral=True)
        if look:
            await self.leadership.refresh_brokers()

    async def leave(self, *broker_ids: int, look: bool = True) -> None:
        for broker_id in broker_ids:
            await self.brokers.pop(broker_id).close()
        if look:
            await self.leadership.refresh_brokers()

    async def make_topic(
        self, *replicas: list[int], name: str = "t", config: dict[str, str] | None = None
    ) -> None:
        wanted = NewTopic(name=name, assignment=dict(enumerate(replicas)), config=config or {})
        (outcome,) = await self.controller.create_topics([wanted])
        assert not isinstance(outcome, errors.RequestError), outcome

    def led(self, name: str = "t") -> list[tuple[int, tuple[int, ...]]]:
        return [(one.leader, one.isr) for one in self.images.current.topics[name].partitions]

    def state(self, number: int = 0) -> PartitionImage:
        return self.images.current.topics["t"].partitions[number]

    async def propose(
        self, by: int, where: TopicPartition, *isr: int
    ) -> PartitionImage | errors.RequestError:
        state = self.images.current.topics[where.topic].partitions[where.partition]
        (outcome,) = await self.leadership.alter_in_sync_sets(
            by,
            broker_epoch=self.images.current.brokers[by].epoch,
            proposals=[AlterPartitionData(where, state.leader_epoch, state.partition_epoch, isr)],
        )
        return outcome

    async def check_registry(self) -> None:
        """The registry, the controller's image and its followers' image are equal."""
        written = await load_image(MemoryStore(self.registry))
        log: ChangeLog = self.controller.writer.change_log
        followed = apply(ClusterImage(), log.since(-1, 0).changes)
        for image in (written, followed):
            assert dict(image.topics) == dict(self.images.current.topics)
            assert dict(image.brokers) == dict(self.images.current.brokers)


async def test_a_dead_leader_is_followed_by_a_member_of_the_set() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.make_topic([1, 2, 3], [2, 3, 1])
    await cluster.leave(1)
    assert cluster.led() == [(2, (2, 3)), (2, (2, 3))]
    assert [cluster.state(number).leader_epoch for number in (0, 1)] == [1, 0]
    await cluster.leave(2, 3)
    assert [leader for leader, _ in cluster.led()] == [NO_LEADER, NO_LEADER]
    await cluster.join(1)
    assert [leader for leader, _ in cluster.led()] == [NO_LEADER, NO_LEADER]
    await cluster.join(3)
    assert cluster.led()[0][0] == cluster.led()[1][0] == 3
    await cluster.check_registry()


async def test_a_broker_that_restarted_unseen_is_another_one() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2])
    await cluster.make_topic([1], name="single")
    await cluster.leave(1, look=False)
    await cluster.join(1)
    assert cluster.led() == [(2, (2,))]
    assert cluster.led("single") == [(1, (1,))]
    assert cluster.images.current.topics["single"].partitions[0].leader_epoch == 2
    await cluster.leave(2, look=False)
    await cluster.join(2, stopped_cleanly=False)
    # The only member of the set stays: no replica has more.
    assert cluster.led()[0] == (2, (2,))
    await cluster.check_registry()


async def test_an_unclean_stop_costs_the_place_in_the_set() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.make_topic([1, 2, 3])
    await cluster.leave(1, 2, 3)
    assert cluster.led() == [(NO_LEADER, (1, 2, 3))]
    await cluster.join(1, stopped_cleanly=False)
    assert cluster.led() == [(NO_LEADER, (2, 3))]
    await cluster.join(2)
    assert cluster.led() == [(2, (2,))]
    await cluster.join(3, stopped_cleanly=False)
    assert cluster.led() == [(2, (2,))]
    await cluster.check_registry()


async def test_only_a_topic_that_allows_loss_is_led_from_outside_the_set() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2], name="careful")
    await cluster.make_topic([1, 2], name="careless", config={"unclean.leader.election.enable": "true"})
    for name in ("careful", "careless"):
        assert not isinstance(await cluster.propose(1, TopicPartition(name, 0), 1), errors.RequestError)
    await cluster.leave(1)
    assert cluster.led("careful") == [(NO_LEADER, (1,))]
    assert cluster.led("careless") == [(2, (2,))]


async def test_a_shutdown_in_order_leaves_nothing_that_another_could_lead() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2], [2, 1])
    await cluster.make_topic([1], name="single")
    epoch = cluster.images.current.brokers[1].epoch
    with pytest.raises(errors.StaleBrokerEpoch, match="broker 1"):
        await cluster.leadership.shut_down_broker(1, broker_epoch=epoch - 1)
    assert await cluster.leadership.shut_down_broker(1, broker_epoch=epoch) == [TopicPartition("single", 0)]
    assert cluster.led() == [(2, (2,)), (2, (2,))]
    # It is still fetching, and may not join the set before it has registered again.
    assert isinstance(await cluster.propose(2, T0, 1, 2), errors.IneligibleReplica)
    assert await cluster.leadership.balance() == 0
    await cluster.leave(1)
    await cluster.join(1)
    assert not isinstance(await cluster.propose(2, T0, 1, 2), errors.RequestError)
    assert await cluster.leadership.balance() == 1
    assert cluster.state().leader == 1
    await cluster.check_registry()


async def test_proposals_are_judged_one_by_one() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2], [2, 1])
    state = cluster.state()
    outcomes = await cluster.leadership.alter_in_sync_sets(
        1,
        broker_epoch=cluster.images.current.brokers[1].epoch,
        proposals=[
            AlterPartitionData(T0, state.leader_epoch, state.partition_epoch, (1,)),
            AlterPartitionData(T1, 0, 0, (1,)),
            AlterPartitionData(TopicPartition("t", 9), 0, 0, (1,)),
        ],
    )
    assert outcomes[0] == state._replace(isr=(1,), partition_epoch=state.partition_epoch + 1)
    assert isinstance(outcomes[1], errors.NotLeaderOrFollower)
    assert isinstance(outcomes[2], errors.UnknownTopicOrPartition)
    assert cluster.led() == [(1, (1,)), (2, (2, 1))]
    await cluster.check_registry()


async def test_elections_on_request() -> None:
    cluster = await Cluster.start(1, 2, 3)
    await cluster.make_topic([1, 2])
    await cluster.make_topic([3], name="single")
    await cluster.leave(1, 3)
    single = TopicPartition("single", 0)
    wanted = [T0, single, TopicPartition("x", 0)]
    outcomes = await cluster.leadership.elect(wanted, unclean=False)
    assert [type(outcomes[where]) for where in wanted] == [
        errors.PreferredLeaderNotAvailable,
        errors.PreferredLeaderNotAvailable,
        errors.UnknownTopicOrPartition,
    ]
    outcomes = await cluster.leadership.elect([T0, single], unclean=True)
    assert [type(outcomes[where]) for where in (T0, single)] == [
        errors.ElectionNotNeeded,
        errors.EligibleLeadersNotAvailable,
    ]
    await cluster.join(1)
    assert not isinstance(await cluster.propose(2, T0, 1, 2), errors.RequestError)
    await cluster.join(3)
    # Those that need none are not named when everything is asked for.
    assert await cluster.leadership.elect(None, unclean=False) == {T0: None}
    assert (cluster.led(), cluster.led("single")) == ([(1, (1, 2))], [(3, (3,))])
    assert isinstance((await cluster.leadership.elect([T0], unclean=False))[T0], errors.ElectionNotNeeded)


async def test_all_preferred_leaders_lead_again_at_once() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic(*[[1, 2]] * 10)
    await cluster.leadership.elect(None, unclean=False)
    await cluster.leave(1)
    await cluster.join(1)
    for number in range(10):
        assert not isinstance(
            await cluster.propose(2, TopicPartition("t", number), 1, 2), errors.RequestError
        )
    assert await cluster.leadership.balance() == 10
    assert {leader for leader, _ in cluster.led()} == {1}
    assert await cluster.leadership.balance() == 0


async def test_many_states_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic(*[[1, 2]] * 7)
    before = cluster.controller.writer.change_log.next_number
    monkeypatch.setattr(partition_states, "PARTITION_STATES_PER_WRITE_MAX", 3)
    images: list[int] = []
    cluster.images.subscribe(
        lambda _, new: images.append(sum(one.leader == 2 for one in new.topics["t"].partitions))
    )
    await cluster.leave(1)
    assert images == [0, 3, 6, 7]
    # The broker's removal, seven states, and the epochs that this was decided for.
    assert cluster.controller.writer.change_log.next_number == before + 1 + 7 + 1


async def test_an_interrupted_creation_is_completed() -> None:
    cluster = await Cluster.start(1, 2)
    await MemoryStore(cluster.registry).create(
        paths.topic("t"),
        nodes.write_topic(
            uuid.UUID(int=9),
            [PartitionImage(number, 0, 0, who, (), 0) for number, who in enumerate([(3, 2), (3,)])],
        ),
    )
    store = MemoryStore(cluster.registry)
    await store.create(paths.topic_partitions("t"))
    await cluster.controller.writer.begin(cluster.controller.writer.term)
    await cluster.leadership.refresh_brokers()
    assert cluster.led() == [(2, (2,)), (NO_LEADER, ())]
    await cluster.join(3)
    assert cluster.led() == [(2, (2,)), (3, (3,))]
    await cluster.check_registry()


async def test_a_controller_that_was_succeeded_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2])
    await MemoryStore(cluster.registry).multi([Put(paths.CONTROLLER_EPOCH, b"99")])
    with caplog.at_level(logging.INFO), pytest.raises(errors.NotController, match="term"):
        await cluster.leave(1)
    written = await load_image(MemoryStore(cluster.registry))
    assert written.topics["t"].partitions[0].leader == 1
    assert "broker 1 left" in caplog.text


async def test_the_next_controller_sees_an_unclean_return() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2], [2, 1])
    await cluster.leave(1, look=False)
    await cluster.join(1, stopped_cleanly=False, look=False)
    # The controller dies before it has looked; the next one finds two brokers, as if nothing had been.
    await cluster.controller.stop()
    successor = LoneController(MemoryStore(cluster.registry), {"node.id": "101"})
    await successor.controller.start()
    after = Leadership(
        successor.store,
        successor.controller.writer,
        successor.images,
        successor.dynamic,
        successor.controller,
    )
    await after.refresh_brokers()
    states = successor.images.current.topics["t"].partitions
    assert [(one.leader, one.isr) for one in states] == [(2, (2,)), (2, (2,))]
    # An image that it has already followed from is not used again.
    await after.refresh_brokers()
    assert [one.leader_epoch for one in successor.images.current.topics["t"].partitions] == [1, 0]


async def test_a_broker_is_a_member_once_its_returns_effects_are_written() -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.make_topic([1, 2])
    shown: list[tuple[int, int]] = []
    cluster.images.subscribe(
        lambda _, new: (
            shown.append((new.brokers[1].epoch, new.topics["t"].partitions[0].leader))
            if 1 in new.brokers
            else None
        )
    )
    await cluster.leave(1, look=False)
    await cluster.join(1, stopped_cleanly=False)
    assert set(shown) == {(cluster.epoch, 2)}


async def test_leaders_of_many_partitions_are_elected_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await Cluster.start(1, 2)
    await cluster.controller.create_topics([NewTopic("t", partition_count=800, replication_factor=2)])
    turn = 0
    judged = Counter[int]()
    without_brokers = leader_election.without_brokers

    def noted(*arguments: Any, **named: Any) -> Any:
        judged[turn] += 1
        return without_brokers(*arguments, **named)

    monkeypatch.setattr(leader_election, "without_brokers", noted)
    leaving = asyncio.ensure_future(cluster.leave(2))
    while not leaving.done():
        await asyncio.sleep(0)
        turn += 1
    await leaving
    assert {one.leader for one in cluster.images.current.topics["t"].partitions} == {1}
    assert sum(judged.values()) == 800 and max(judged.values()) <= REQUEST_ELEMENTS_PER_TURN_MAX
