"""A controller's terms: lost sessions, writes whose answers are lost, the wrong one asked, what is left behind."""

import asyncio
import random
from functools import partial

import pytest

from odradek.broker.requests.counters import RequestCounters
from odradek.foundation.errors import NotController
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.leadership import Leadership
from odradek.metadata.controller.terms import ControllerTerm
from odradek.metadata.image import paths
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.image import NO_LEADER, ClusterImage
from odradek.metadata.image.image_building import apply
from odradek.metadata.registry.store import Create
from odradek.network.outbound import OutboundConnection
from odradek.server.controller.active_controller import ActiveController
from odradek.storage.log import Log
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from tests.support.loop import LoopClock
from tests.support.memory_registry import MemoryStore, load_image
from tests.support.network import MemoryNetwork
from tests.support.polling import eventually
from tests.support.registry_faults import RegistryFaults
from tests.support.whole_cluster import WholeCluster

NOT_CONTROLLER, TOPIC_ALREADY_EXISTS = 41, 36


async def test_a_controller_without_a_session_is_replaced_and_cannot_write() -> None:
    cluster = await WholeCluster.start(brokers=1)
    first = cluster.active
    assert first is not None
    controller = first.active_controller
    assert controller is not None
    store = cluster.stores[cluster.host(first.id)]
    store.sever()
    await cluster.until(lambda: cluster.active is not None and cluster.active is not first)
    assert not first.is_active
    with pytest.raises(NotController):
        await controller.controller.writer.write([Create("/late")])
    assert await cluster.create_topic("t") == 0
    store.mend()
    await cluster.until(lambda: first.active_id == cluster.active.id if cluster.active else False)
    assert first.terms == 1


async def test_one_that_stands_by_for_another_of_its_id_says_so(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await WholeCluster.start(brokers=1, controllers=1)
    first = cluster.active
    assert first is not None
    assert "has the same id" not in caplog.text
    second = await cluster.start_controller(first.id)
    await cluster.until(lambda: second.active_id == first.id)
    assert not second.is_active
    assert f"controller {first.id} stands by; the active one has the same id" in caplog.text
    await second.stop()
    cluster.controllers[first.id] = first
    assert await cluster.create_topic("t") == 0


@pytest.mark.parametrize("active_first", [True, False], ids=["active first", "standby first"])
async def test_after_all_are_killed_at_once_no_dead_controller_is_waited_for(active_first: bool) -> None:
    """Containers start again in their pods, long before ZooKeeper ends the sessions of before."""
    cluster = await WholeCluster.start(entries={"min.insync.replicas": "2"})
    assert await cluster.create_topic("t", partitions=3, replicas=3) == 0
    assert cluster.active is not None
    active, loop = cluster.active.id, asyncio.get_running_loop()
    for controller_id in list(cluster.controllers):
        # With sessions as long as users have them.
        store = cluster.stores[cluster.host(controller_id)]
        store.session_timeout_seconds = 60.0
    controllers = sorted(cluster.controllers, key=lambda one: (one == active) is not active_first)
    await cluster.kill_all()
    began = loop.time()
    for controller_id in controllers:
        await cluster.start_controller(controller_id, in_place=True)
    await asyncio.gather(*(cluster.start_broker(number) for number in (1, 2, 3)))
    await cluster.until(lambda: -1 not in cluster.leaders("t", seen_by=1))

    async def takes_records(partition: int) -> bool:
        leader = cluster.leaders("t", seen_by=1)[partition]
        return int((await cluster.produce(leader, "t", partition, b"v", acks=-1)).error_code) == 0

    for partition in range(3):
        await eventually("the partition takes records", partial(takes_records, partition))
    assert loop.time() - began < 3.0


async def test_two_of_one_id_and_address_do_not_replace_each_other_for_ever() -> None:
    """Two hosts that pass for one are a mistake: each begins one term at most because of it."""
    cluster = await WholeCluster.start(brokers=1, controllers=1)
    first = cluster.active
    assert first is not None
    cluster.network.stop_listening(cluster.host(first.id))
    second = await cluster.start_controller(first.id, in_place=True)
    await cluster.until(lambda: second.is_active)
    await asyncio.sleep(30)
    assert second.is_active and not first.is_active and (first.terms, second.terms) == (1, 1)
    await first.stop()


async def test_one_that_stands_by_says_so_to_all_but_api_versions() -> None:
    cluster = await WholeCluster.start(brokers=1)
    (standby,) = [one for one in cluster.controllers.values() if not one.is_active]
    connection = await OutboundConnection.connect(
        cluster.network.at("client"), host=cluster.host(standby.id), port=9093, client_id="test"
    )
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]
    request = messages.request(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=1000, validate_only=False)
    refused = await connection.send(ApiKey.CREATE_TOPICS, 7, request)
    assert [int(topic.error_code) for topic in refused.topics] == [NOT_CONTROLLER]
    told = await connection.send(ApiKey.API_VERSIONS, 0, messages.request(ApiKey.API_VERSIONS, 0))
    assert ApiKey.ALTER_PARTITION in {row.api_key for row in told.api_keys}
    await connection.close()


async def test_a_deletion_that_the_last_controller_began_is_ended_by_the_next() -> None:
    cluster = await WholeCluster.start(brokers=2)
    assert await cluster.create_topic("t", partitions=2) == 0
    assert await cluster.create_topic("kept", partitions=2) == 0
    active = cluster.active
    assert active is not None
    cluster.kill_controller(active.id)
    # The mark is all that the dead controller came to write.
    await MemoryStore(cluster.registry).create("/admin/delete_topics/t")
    await cluster.until(lambda: "t" not in cluster.image(1).topics and "t" not in cluster.image(2).topics)
    await cluster.until(lambda: not cluster.registry.tree.exists("/admin/delete_topics/t"))
    assert not cluster.registry.tree.exists("/brokers/topics/t")
    kept = {log.topic_partition.topic for number in (1, 2) for log in _logs(cluster, number)}
    assert kept == {"kept"}
    assert await cluster.create_topic("t", partitions=1) == 0


async def test_a_controller_with_an_internal_error_is_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await WholeCluster.start(brokers=1)
    active = cluster.active
    assert active is not None
    (other,) = [one for one in cluster.controllers.values() if one is not active]
    look, calls = Leadership.refresh_brokers, []

    async def stumbles_once(leadership: Leadership) -> None:
        calls.append(leadership)
        if len(calls) == 1:
            raise ValueError("nobody thought of this")
        await look(leadership)

    monkeypatch.setattr(Leadership, "refresh_brokers", stumbles_once)
    cluster.kill_controller(active.id)
    await cluster.until(lambda: other.is_active)
    assert other.terms == 2
    assert await cluster.create_topic("t") == 0
    await cluster.stop()
    assert "nobody thought of this" in caplog.text


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
async def test_all_agree_on_the_cluster_although_the_registry_loses_messages(seed: int) -> None:
    cluster = await WholeCluster.start(brokers=3, seed=seed)
    cluster.registry.faults = RegistryFaults(
        random.Random(seed),
        latency_seconds=(0.001, 0.02),
        lost_requests=0.02,
        lost_answers=0.04,
        reconnect_seconds=(0.05, 1.0),
    )
    names = [f"t{number}" for number in range(6)]
    for number, name in enumerate(names):
        await eventually(
            f"{name} is there",
            partial(cluster.create_topic, name, through=1 + number % 3, partitions=4, replicas=2),
            lambda code: code in (0, TOPIC_ALREADY_EXISTS),
            pause_seconds=0.5,
        )
    cluster.registry.faults = None
    for store in cluster.stores.values():
        store.mend()
    await cluster.until(lambda: _is_settled(cluster, names), seconds_max=120)
    written = await load_image(MemoryStore(cluster.registry))
    for number in (1, 2, 3):
        seen = cluster.image(number)
        assert dict(seen.topics) == dict(written.topics)
        assert {one.id: one.epoch for one in seen.brokers.values()} == {
            one.id: one.epoch for one in written.brokers.values()
        }
    active = cluster.active
    assert active is not None
    assert active.active_controller is not None
    log = active.active_controller.controller.writer.change_log
    told = apply(ClusterImage(), [NodeChange(*change) for change in log.since(-1, 0).changes])
    assert dict(told.topics) == dict(written.topics)


def _is_settled(cluster: WholeCluster, names: list[str]) -> bool:
    """Whether every broker is a member, and every partition is led and has all its replicas in sync, on every
    broker."""
    if cluster.active is None or any(
        broker.control.membership.is_fenced for broker in cluster.brokers.values()
    ):
        return False
    for broker_id in cluster.brokers:
        image = cluster.image(broker_id)
        if len(image.brokers) != len(cluster.brokers) or not set(names) <= image.topics.keys():
            return False
        states = [state for name in names for state in image.topics[name].partitions]
        if any(state.leader == NO_LEADER or len(state.isr) != len(state.replicas) for state in states):
            return False
    return True


def _logs(cluster: WholeCluster, broker_id: int) -> list[Log]:
    return list(cluster.brokers[broker_id].log_manager.logs())


async def test_a_term_that_is_over_before_it_began_watches_nothing() -> None:
    store = MemoryStore()
    failures: list[str] = []
    controller = ActiveController(
        ControllerTerm(controller_id=100, epoch=1, epoch_version=0),
        store=store,
        settings=Settings({"node.id": "100"}),
        clock=LoopClock(),
        rng=random.Random(1),
        counters=RequestCounters(),
        network=MemoryNetwork(random.Random(1)).at("controller"),
        on_failure=lambda _, reason: failures.append(reason),
    )
    controller.end("it was lost at once")
    await controller.begin()
    assert not store.watches.has(paths.BROKER_IDS)
    assert (controller.is_active, failures) == (False, [])
    await controller.close()
