"""A whole cluster in one loop: elected controllers, brokers that follow them, clients that come to any broker."""

import asyncio
import errno
from typing import Any

import pytest

from odradek.broker.process import metadata_subscription
from odradek.foundation.errors import DuplicateBrokerRegistration
from odradek.foundation.limits import LOGS_MADE_PER_TURN_MAX
from odradek.metadata.image.image import NO_LEADER, ClusterImage, ResourceKind
from odradek.metadata.registry.store import SessionState
from odradek.wire.protocol.api import ApiKey
from tests.support.disk import SimulatedDisk
from tests.support.polling import eventually
from tests.support.thread_work import where_called
from tests.support.whole_cluster import WholeCluster

KAFKA_STORAGE_ERROR = 56
NOT_LEADER_OR_FOLLOWER, NOT_CONTROLLER, TOPIC_ALREADY_EXISTS, ELECTION_NOT_NEEDED = 6, 41, 36, 84


async def test_a_topic_made_through_any_broker_is_seen_there_at_once_and_by_all() -> None:
    cluster = await WholeCluster.start()
    assert sum(one.is_active for one in cluster.controllers.values()) == 1
    for through in (1, 2, 3):
        assert await cluster.create_topic(f"t{through}", through=through) == 0
        assert f"t{through}" in cluster.image(through).topics
    await cluster.until(lambda: all(len(cluster.image(number).topics) == 3 for number in (1, 2, 3)))
    assert sorted(cluster.leaders("t1", seen_by=3)) == [1, 2, 3]
    assert await cluster.create_topic("t1", through=2) == TOPIC_ALREADY_EXISTS


@pytest.mark.thorough
async def test_a_broker_goes_on_while_it_makes_the_logs_of_a_large_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partitions = 10 * LOGS_MADE_PER_TURN_MAX
    turns: list[int] = [0]
    cluster = await WholeCluster.start()
    log_manager = cluster.brokers[1].log_manager
    create = log_manager.create

    def counted(*what: Any) -> Any:
        if not turns[-1]:
            asyncio.get_running_loop().call_soon(turns.append, 0)
        turns[-1] += 1
        return create(*what)

    monkeypatch.setattr(log_manager, "create", counted)
    assert await cluster.create_topic("t", through=2, partitions=partitions, replicas=3) == 0
    await cluster.until(lambda: "t" in cluster.image(1).topics)
    assert sum(turns) == partitions, "all are there as soon as the topic is to be seen, and made once"
    assert max(turns) <= LOGS_MADE_PER_TURN_MAX


async def test_the_next_controller_answers_a_request_of_one_that_died() -> None:
    cluster = await WholeCluster.start()
    await cluster.create_topic("before")
    active = cluster.active
    assert active is not None
    asked = asyncio.ensure_future(cluster.create_topic("during", through=2))
    await cluster.until(lambda: "during" in _nodes(cluster))
    cluster.kill_controller(active.id)
    # Whether the first one had written it or the second did: there is one topic, and it is whole.
    assert await asked in (0, TOPIC_ALREADY_EXISTS)
    assert await cluster.create_topic("after", through=3) == 0
    successor = cluster.active
    assert successor is not None
    assert successor.id != active.id
    await cluster.until(lambda: len(cluster.image(1).topics) == 3)
    for name in ("before", "during", "after"):
        assert NO_LEADER not in cluster.leaders(name, seen_by=1)


async def test_without_a_controller_only_requests_for_it_are_refused() -> None:
    cluster = await WholeCluster.start(controllers=1)
    assert await cluster.create_topic("t", partitions=1) == 0
    (controller_id,) = cluster.controllers
    cluster.kill_controller(controller_id)
    assert await cluster.create_topic("late", through=2) == NOT_CONTROLLER
    (leader,) = cluster.leaders("t", seen_by=1)
    produced = await cluster.produce(leader, "t", 0, b"still here")
    assert (int(produced.error_code), produced.base_offset) == (0, 0)
    await cluster.start_controller(200)
    assert await cluster.create_topic("late", through=2) == 0


async def test_leaders_move_when_a_broker_dies_and_return_when_balanced() -> None:
    cluster = await WholeCluster.start(entries={"leader.imbalance.check.interval.seconds": "20"})
    assert await cluster.create_topic("t", partitions=6, replicas=3) == 0
    for partition, leader in enumerate(cluster.leaders("t", seen_by=1)):
        answer = await cluster.produce(leader, "t", partition, b"one", b"two", acks=-1)
        assert (int(answer.error_code), answer.base_offset) == (0, 0)
    await cluster.kill_broker(2)
    await cluster.until(lambda: set(cluster.leaders("t", seen_by=1)) == {1, 3})
    for partition, leader in enumerate(cluster.leaders("t", seen_by=1)):
        answer = await cluster.produce(leader, "t", partition, b"three", acks=-1)
        assert (int(answer.error_code), answer.base_offset) == (0, 2)
    await cluster.start_broker(2)
    # It is back in every set once it has what was written without it, and then leads what it led first.
    await cluster.until(lambda: all(set(isr) == {1, 2, 3} for isr in _in_sync(cluster, "t")))
    await cluster.until(lambda: set(cluster.leaders("t", seen_by=1)) == {1, 2, 3})
    for partition, leader in enumerate(cluster.leaders("t", seen_by=2)):
        answer = await cluster.produce(leader, "t", partition, b"four", acks=-1)
        assert (int(answer.error_code), answer.base_offset) == (0, 3)


async def test_a_broker_with_an_expired_session_is_fenced_until_it_rejoins() -> None:
    cluster = await WholeCluster.start()
    assert await cluster.create_topic("t", partitions=3) == 0
    partition = cluster.leaders("t", seen_by=1).index(2)
    await cluster.produce(2, "t", partition, b"before")
    epoch = cluster.brokers[2].control.membership.epoch
    store = cluster.stores[cluster.host(2)]
    store.expire()
    store.sever()
    await cluster.until(lambda: cluster.brokers[2].control.membership.is_fenced)
    refused = await cluster.produce(2, "t", partition, b"lost?")
    assert int(refused.error_code) == NOT_LEADER_OR_FOLLOWER
    metadata = await cluster.ask(2, ApiKey.METADATA, 9, topics=None)
    assert sorted(broker.node_id for broker in metadata.brokers) == [1, 3]
    await cluster.until(lambda: cluster.leaders("t", seen_by=1)[partition] == NO_LEADER)
    store.mend()
    await cluster.until(lambda: cluster.leaders("t", seen_by=2)[partition] == 2)
    assert cluster.brokers[2].control.membership.epoch > epoch
    again = await cluster.produce(2, "t", partition, b"after")
    assert (int(again.error_code), again.base_offset) == (0, 1)


async def test_a_start_outlives_a_registry_that_goes_away_meanwhile() -> None:
    """It was let in at the beginning of the start; the session may expire while logs are recovered."""
    cluster = await WholeCluster.start()
    broker = cluster.make_broker(4)
    store = cluster.stores[cluster.host(4)]
    broker.images.subscribe(lambda old, new: store.sever())
    starting = asyncio.ensure_future(broker.start())
    await asyncio.sleep(60)
    assert not starting.done()
    assert not broker.is_serving
    store.mend()
    await starting
    cluster.brokers[4] = broker
    assert 4 in cluster.image(4).brokers
    await cluster.until(lambda: 4 in cluster.image(1).brokers)


async def test_a_broker_that_cannot_follow_any_more_says_that_it_must_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = await WholeCluster.start(brokers=1)

    async def broken(received: object) -> None:
        raise ValueError("a fault of ours")

    cluster.brokers[1].control.subscription._apply = broken  # type: ignore[method-assign]
    await cluster.create_topic("t")
    assert cluster.refused == ["following/poll failed: a fault of ours"]
    await cluster.stop()
    assert "a fault of ours" in caplog.text


async def test_a_failed_disk_ends_the_broker_so_that_others_lead(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await WholeCluster.start()
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    (leader,) = cluster.leaders("t", seen_by=1)
    cluster.disks[leader].fail_path("/logs", errno.EIO)
    answer = await cluster.produce(leader, "t", 0, b"lost")
    assert int(answer.error_code) == KAFKA_STORAGE_ERROR
    assert [reason.partition(" (")[0] for reason in cluster.refused] == ["the log directory /logs failed"]
    await cluster.stop_broker(leader)
    alive = min(cluster.brokers)
    await cluster.until(lambda: cluster.leaders("t", seen_by=alive)[0] in cluster.brokers)
    (successor,) = cluster.leaders("t", seen_by=alive)
    answer = await cluster.produce(successor, "t", 0, b"kept")
    assert (int(answer.error_code), answer.base_offset) == (0, 0)
    await cluster.stop()
    assert "/logs" in caplog.text


async def test_a_fenced_broker_leads_nothing_although_it_knows_a_newer_epoch() -> None:
    cluster = await WholeCluster.start()
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    (leader,) = cluster.leaders("t", seen_by=1)
    broker = cluster.brokers[leader]
    partition = broker.partitions.get("t", 0)
    state = broker.images.current.topics["t"].partitions[0]
    # The answer to a proposal, before the change has come.
    partition.take_role(state._replace(isr=(leader,), partition_epoch=state.partition_epoch + 1))
    broker.control.membership._leave_cluster("a test says so")
    assert not partition.is_leader
    refused = await cluster.produce(leader, "t", 0, b"lost?")
    assert int(refused.error_code) == NOT_LEADER_OR_FOLLOWER


async def test_a_stop_in_order_moves_leaders_away_before_the_broker_goes() -> None:
    cluster = await WholeCluster.start()
    assert await cluster.create_topic("t", partitions=3, replicas=2) == 0
    seen: list[set[int]] = []

    def watch(_: object, new: ClusterImage) -> None:
        if 3 in new.brokers:
            seen.append({one.leader for one in new.topics["t"].partitions})

    cluster.brokers[1].images.subscribe(watch)
    await cluster.stop_broker(3)
    assert 3 not in seen[-1], "it was a member without leaderships before it was none"
    await cluster.start_broker(3)
    await cluster.until(lambda: all(len(isr) == 2 for isr in _in_sync(cluster, "t")))


async def test_a_stop_without_a_registry_waits_for_nobody() -> None:
    cluster = await WholeCluster.start(brokers=2)
    cluster.stores[cluster.host(2)].sever()
    before = asyncio.get_running_loop().time()
    await cluster.stop_broker(2)
    assert asyncio.get_running_loop().time() - before < 1
    assert cluster.disks[2].exists("/logs/.kafka_cleanshutdown")


async def test_the_log_of_a_topic_deleted_while_a_broker_was_away_is_set_aside() -> None:
    cluster = await WholeCluster.start(brokers=2)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    await cluster.stop_broker(2)
    answer = await cluster.ask(1, ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t"}], timeout=1000)
    assert int(answer.responses[0].error_code) == 0
    broker = await cluster.start_broker(2)
    assert [log.topic_partition.topic for log in broker.log_manager.logs()] == []
    (kept,) = [entry.name for entry in cluster.disks[2].entries("/logs") if entry.name.startswith("t-0")]
    assert kept.endswith("-stray")


async def test_an_id_that_a_live_broker_has_is_refused() -> None:
    cluster = await WholeCluster.start(brokers=1)
    taken = cluster.stores[cluster.host(1)]
    cluster.disks[9] = SimulatedDisk()
    disk, cluster.disks[1] = cluster.disks[1], cluster.disks[9]
    other = cluster.make_broker(1)
    with pytest.raises(DuplicateBrokerRegistration, match="id 1 already"):
        await other.start()
    cluster.disks[1] = disk
    assert taken.session_state is SessionState.CONNECTED
    assert await taken.exists("/brokers/ids/1")


async def test_groups_go_on_with_the_next_leader_of_their_partition() -> None:
    entries = {"offsets.topic.num.partitions": "3", "offsets.topic.replication.factor": "3"}
    cluster = await WholeCluster.start(entries=entries)
    assert await cluster.create_topic("t", partitions=1) == 0
    coordinator = await cluster.coordinator("g", through=1)
    assert await cluster.commit_offset(coordinator, 7) == 0
    await cluster.kill_broker(coordinator)
    alive = min(cluster.brokers)
    # The dead broker is named until its session's end is noticed.
    successor = await eventually(
        "another broker looks after the group",
        lambda: cluster.coordinator("g", through=alive),
        lambda seen: seen != coordinator,
        pause_seconds=0.1,
    )
    found = await eventually(
        "the group's offsets are loaded",
        lambda: cluster.committed_offset(successor),
        lambda seen: not seen[0],
    )
    assert found == (0, 7)


async def test_elections_and_settings_are_asked_for_through_any_broker() -> None:
    cluster = await WholeCluster.start()
    assert await cluster.create_topic("t", partitions=1) == 0
    versions = await cluster.ask(
        1, ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1"
    )
    assert ApiKey.ELECT_LEADERS in {row.api_key for row in versions.api_keys}
    wanted = [{"topic": "t", "partitions": [0]}]
    elected = await cluster.ask(
        2, ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=wanted, timeout=1000
    )
    (row,) = elected.replica_election_results[0].partition_result
    assert int(row.error_code) == ELECTION_NOT_NEEDED
    level = {"resource_type": 8, "resource_name": "3", "configs": [_set("odradek.test-only", "DEBUG")]}
    topic = {"resource_type": 2, "resource_name": "t", "configs": [_set("retention.ms", "1234")]}
    answer = await cluster.ask(
        3, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[topic, level], validate_only=False
    )
    assert int(answer.responses[0].error_code) == 0
    assert cluster.image(3).config(ResourceKind.TOPIC, "t") == {"retention.ms": "1234"}
    own = {"resource_type": 4, "resource_name": "2", "configs": [_set("log.retention.ms", "77")]}
    gone = {"resource_type": 4, "resource_name": "9", "configs": [_set("log.retention.ms", "77")]}
    answer = await cluster.ask(
        2, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[own, gone], validate_only=False
    )
    assert [int(one.error_code) for one in answer.responses] == [0, 42]
    await cluster.until(lambda: len(cluster.image(1).configs) == len(cluster.image(2).configs))
    retention = [cluster.brokers[number].dynamic_settings.current.log_retention_ms for number in (1, 2)]
    assert retention == [None, 77]


def _set(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "config_operation": 0, "value": value}


def _nodes(cluster: WholeCluster) -> set[str]:
    """The topics that the registry has."""
    tree = cluster.registry.tree
    return set(tree.children("/brokers/topics")) if tree.exists("/brokers/topics") else set()


def _in_sync(cluster: WholeCluster, topic: str) -> list[tuple[int, ...]]:
    return [one.isr for one in cluster.image(1).topics[topic].partitions]


async def test_a_large_answer_of_the_controller_is_read_in_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_subscription, "CLUSTER_CHANGES_BYTES_READ_AT_ONCE_MAX", 20_000)
    read = where_called(monkeypatch, metadata_subscription, "_read")
    cluster = await WholeCluster.start(brokers=1, controllers=1)
    assert await cluster.create_topic("t", partitions=200) == 0
    assert set(cluster.leaders("t", seen_by=1)) == {1}
    # Most answers are small.
    assert True in read and False in read
