"""Every setting of groups and offsets has its effect; those of one group win over the broker's."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from odradek.foundation import errors
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import BatchView
from odradek.wire.records.compression import Compression
from tests.support.consumer_members import ConsumerMember, converge
from tests.support.coordinator_world import GroupWorld, done, in_world, topic_id, turns
from tests.support.stories import told_by
from tests.support.whole_broker import WholeBroker

GROUP_RESOURCE = 32
BROKER_RESOURCE = 4
SET, DELETE = 0, 1


def commit(
    world: GroupWorld, partition: int, *, metadata: str = ""
) -> asyncio.Task[list[errors.OdradekError | None]]:
    return asyncio.ensure_future(world.commit(("t", partition, 1), metadata=metadata))


@pytest.mark.parametrize("codec", list(Compression))
def test_commits_are_compressed_as_the_offsets_topic_asks(codec: Compression) -> None:
    async def story(world: GroupWorld) -> None:
        assert await commit(world, 0, metadata="x" * 1000) == [None]
        (written,) = world.log.batches[0]
        assert BatchView(memoryview(written)).compression == codec
        await world.restart()
        assert [row[3] for row in world.groups.offsets.list_committed()] == [1]

    in_world(story, partitions=1, offsets_topic_compression_codec=int(codec))


@told_by(in_world, offsets_commit_timeout_ms=2000)
async def test_late_commits_are_answered_in_time_and_count_later(world: GroupWorld) -> None:
    world.log.is_held = True
    first = commit(world, 0)
    await asyncio.sleep(1)
    second = commit(world, 1)  # waits behind the first, and has its own two seconds
    await asyncio.sleep(1.5)
    assert isinstance(done(first)[0], errors.CoordinatorNotAvailable)
    assert not second.done()
    await asyncio.sleep(1)
    assert isinstance(done(second)[0], errors.CoordinatorNotAvailable)
    assert list(world.groups.offsets.list_committed()) == []
    world.log.release()
    await turns(10)
    assert [row[2] for row in world.groups.offsets.list_committed()] == [0, 1]
    third = commit(world, 2)
    await asyncio.sleep(10)
    assert done(third) == [None]


@told_by(in_world, offsets_commit_timeout_ms=2000)
async def test_a_commit_in_time_is_not_answered_twice(world: GroupWorld) -> None:
    world.log.is_held = True
    committed = commit(world, 0)
    await asyncio.sleep(1)
    world.log.release()
    assert await committed == [None]
    await asyncio.sleep(10)
    assert world.groups.context.commits == 1


@told_by(in_world, offset_metadata_max_bytes=4)
async def test_the_length_of_metadata_is_counted_as_java_does(world: GroupWorld) -> None:
    assert await commit(world, 0, metadata="abcd") == [None]
    assert await commit(world, 0, metadata="äöüß") == [None]
    assert await commit(world, 0, metadata="😀😀") == [None]
    for too_long in ("abcde", "😀😀a"):
        (error,) = await commit(world, 0, metadata=too_long)
        assert isinstance(error, errors.InvalidCommitOffsetSize)


@told_by(in_world, topics={"t": 1}, group_coordinator_rebalance_protocols=("classic",))
async def test_a_broker_without_the_consumer_protocol_says_so(world: GroupWorld) -> None:
    answer = await ConsumerMember(world, "a").heartbeat()
    assert isinstance(answer, errors.UnsupportedVersion)
    with pytest.raises(
        errors.UnsupportedVersion, match=r"group\.coordinator\.rebalance\.protocols is classic"
    ):
        world.groups.admin.describe_consumer_group("g")
    assert (await world.member()).error is None


@told_by(
    in_world,
    group_max_size=2,
    group_initial_rebalance_delay_ms=7000,
    group_min_session_timeout_ms=1000,
    group_max_session_timeout_ms=20_000,
)
async def test_classic_groups_have_their_size_delay_and_session_bounds(world: GroupWorld) -> None:
    for timeout_ms in (999, 20_001):
        refused = await world.join(session_timeout_ms=timeout_ms)
        assert isinstance(refused.error, errors.InvalidSessionTimeout)
    joins = [world.join(requires_known_member_id=False, session_timeout_ms=1000) for _ in range(2)]
    await asyncio.sleep(13.9)  # the second new member makes the group wait once more
    assert not any(join.done() for join in joins)
    await asyncio.sleep(0.2)
    assert all(done(join).error is None for join in joins)
    third = await world.join(requires_known_member_id=False, session_timeout_ms=20_000)
    assert isinstance(third.error, errors.GroupMaxSizeReached)


@told_by(in_world, topics={"t": 1}, group_consumer_max_size=1, group_consumer_assignors=("range",))
async def test_consumer_groups_have_their_size_and_assignors(world: GroupWorld) -> None:
    await ConsumerMember(world, "a").must_beat()
    assert isinstance(await ConsumerMember(world, "b").heartbeat(), errors.GroupMaxSizeReached)
    unknown = await ConsumerMember(world, "a", server_assignor="uniform").heartbeat()
    assert isinstance(unknown, errors.UnsupportedAssignor)
    assert world.groups.admin.describe_consumer_group("g").assignor == "range"


@told_by(in_world, topics={"t": 4}, group_consumer_assignment_interval_ms=2000)
async def test_an_assignment_waits_for_the_interval_since_the_last(world: GroupWorld) -> None:
    a, b = ConsumerMember(world, "a"), ConsumerMember(world, "b")
    assert (await a.must_beat()).assigned == {topic_id("t"): frozenset(range(4))}
    await asyncio.sleep(1.9)
    joined = await b.must_beat()
    assert (joined.member_epoch, joined.assigned) == (1, {})
    assert world.groups.admin.describe_consumer_group("g").state == "Assigning"
    await asyncio.sleep(0.2)
    await converge([a, b])
    assert {len(member.owned[topic_id("t")]) for member in (a, b)} == {2}


@told_by(in_world, topics={"t": 4}, group_consumer_assignment_interval_ms=2000)
async def test_the_interval_lasts_beyond_a_restart_of_the_coordinator(world: GroupWorld) -> None:
    await ConsumerMember(world, "a").must_beat()
    await world.restart()
    b = ConsumerMember(world, "b")
    assert (await b.must_beat()).member_epoch == 1
    await asyncio.sleep(2)
    assert (await b.must_beat()).member_epoch == 2


@told_by(in_world, topics={"t": 4}, group_consumer_assignment_interval_ms=2000)
async def test_the_first_member_of_an_empty_group_does_not_wait(world: GroupWorld) -> None:
    a = ConsumerMember(world, "a")
    await a.must_beat()
    await a.leave()
    assert (await ConsumerMember(world, "b").must_beat()).assigned == {topic_id("t"): frozenset(range(4))}


@told_by(in_world, topics={"t": 1}, group_consumer_session_timeout_ms=50_000)
async def test_sessions_last_as_the_broker_says_also_after_a_restart(world: GroupWorld) -> None:
    member = ConsumerMember(world, "a")
    for _ in range(2):
        await member.must_beat()
        await asyncio.sleep(49)
        assert len(world.groups.admin.describe_consumer_group("g").members) == 1
        await world.restart()
    await asyncio.sleep(49)
    assert len(world.groups.admin.describe_consumer_group("g").members) == 1
    await asyncio.sleep(2)
    assert world.groups.admin.describe_consumer_group("g").members == []


# --- settings of one group ----------------------------------------------------------------------------------


async def alter(broker: WholeBroker, group_id: str, *changes: tuple[str, str | None]) -> int:
    configs = [
        {"name": key, "value": value, "config_operation": SET if value is not None else DELETE}
        for key, value in changes
    ]
    answer = await broker.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[{"resource_type": GROUP_RESOURCE, "resource_name": group_id, "configs": configs}],
    )
    return int(answer.responses[0].error_code)


async def test_a_changed_default_of_the_broker_holds_at_once() -> None:
    broker = await WholeBroker.start({"offsets.topic.num.partitions": "2"})
    await broker.create_topic("t", partitions=2)
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    assert (await heartbeat(broker, "g", epoch=0)).member_epoch == 1
    answer = await broker.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": BROKER_RESOURCE,
                "resource_name": "",
                "configs": [
                    {
                        "name": "group.consumer.assignment.interval.ms",
                        "value": "4000",
                        "config_operation": SET,
                    }
                ],
            }
        ],
    )
    assert answer.responses[0].error_code == 0
    assert (await described(broker, "g"))["consumer.assignment.interval.ms"] == "4000"
    assert broker.broker.coordinators.groups.context.consumer_value("assignment.interval.ms", "g") == 4000


async def described(broker: WholeBroker, group_id: str) -> dict[str, str]:
    answer = await broker.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[{"resource_type": GROUP_RESOURCE, "resource_name": group_id, "configuration_keys": None}],
    )
    return {config.name: config.value for config in answer.results[0].configs}


async def heartbeat(broker: WholeBroker, group_id: str, *, epoch: int) -> Any:
    joining: dict[str, Any] = {}
    if epoch == 0:
        joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return await broker.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=group_id,
        member_id=str(UUID(int=1)),
        member_epoch=epoch,
        **joining,
    )


async def members(broker: WholeBroker, group_id: str) -> int:
    return len(broker.broker.coordinators.groups.admin.describe_consumer_group(group_id).members)


async def test_a_group_has_its_own_session_and_heartbeat_interval() -> None:
    broker = await WholeBroker.start({"offsets.topic.num.partitions": "2"})
    await broker.create_topic("t")
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    own = ("consumer.session.timeout.ms", "60000"), ("consumer.heartbeat.interval.ms", "10000")
    assert await alter(broker, "own", *own) == 0
    assert (await described(broker, "own")).items() >= dict(own).items()
    listed = await broker.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[GROUP_RESOURCE])
    assert [resource.resource_name for resource in listed.config_resources] == ["own"]
    for group_id, interval in (("own", 10), ("other", 5)):
        answer = await heartbeat(broker, group_id, epoch=0)
        assert (answer.error_code, answer.heartbeat_interval.total_seconds()) == (0, interval)
    await asyncio.sleep(50)
    assert (await members(broker, "own"), await members(broker, "other")) == (1, 0)
    # It continues with the next heartbeat, and survives a restart.
    broker = await broker.restart()
    await broker.broker.coordinators.groups.runtime.wait_until_loaded()
    assert (await heartbeat(broker, "own", epoch=1)).heartbeat_interval.total_seconds() == 10
    assert await alter(broker, "own", *((key, None) for key, _ in own)) == 0
    assert (await heartbeat(broker, "own", epoch=1)).heartbeat_interval.total_seconds() == 5
    await asyncio.sleep(46)
    assert await members(broker, "own") == 0


@pytest.mark.parametrize(
    "change",
    [
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("consumer.heartbeat.interval.ms", "much"),
        ("consumer.sesion.timeout.ms", "50000"),
    ],
)
async def test_a_group_is_not_given_values_outside_the_bounds_of_the_broker(change: tuple[str, str]) -> None:
    broker = await WholeBroker.start()
    assert await alter(broker, "g", change) == 40
    assert (await described(broker, "g"))["consumer.session.timeout.ms"] == "45000"


@pytest.mark.parametrize(
    ("key", "lowest", "highest"),
    [
        ("consumer.assignment.interval.ms", 0, 15_000),
        ("consumer.heartbeat.interval.ms", 5_000, 15_000),
        ("share.delivery.count.limit", 2, 10),
        ("share.partition.max.record.locks", 100, 4_000),
        ("share.record.lock.duration.ms", 15_000, 60_000),
        ("streams.num.standby.replicas", 0, 2),
    ],
)
async def test_a_group_is_given_all_values_that_the_broker_allows(
    key: str, lowest: int, highest: int
) -> None:
    broker = await WholeBroker.start()
    for value, error_code in ((lowest - 1, 40), (lowest, 0), (highest, 0), (highest + 1, 40)):
        assert (value, await alter(broker, "g", (key, str(value)))) == (value, error_code)
