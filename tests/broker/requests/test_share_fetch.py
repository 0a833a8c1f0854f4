"""ShareFetch and ShareAcknowledge over the wire: what is acquired, acknowledged, waited for and refused."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from odradek.broker.share_states.states import ShareState, StateRange
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import CoordinatorNotAvailable, FencedLeaderEpoch
from odradek.metadata.controller.client_configs import ClientConfigChange
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import split
from tests.support.share_consumer import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    ShareConsumer,
    with_memory_states,
)
from tests.support.share_states import MemoryShareStates
from tests.support.transactional_producer import TransactionalProducer
from tests.support.whole_broker import WholeBroker

ARCHIVED = 4


async def begun(
    *, batches: int = 0, partitions: int = 1, start: int = 0, **entries: str
) -> tuple[WholeBroker, MemoryShareStates, ShareConsumer]:
    """A broker with a topic of batches with one record each, and a member whose group begins at `start`."""
    broker = await WholeBroker.start({key.replace("_", "."): text for key, text in entries.items()})
    states = with_memory_states(broker)
    await broker.create_topic("t", partitions=partitions)
    for partition in range(partitions):
        for number in range(batches):
            await broker.produce("t", b"%d" % number, partition=partition)
    member = ShareConsumer(broker, partitions=partitions)
    member.initialize(states, start=start)
    # A session begins. The first fetch that asks for records loads the states.
    assert await member.acquire(max_records=0) == []
    return broker, states, member


def offsets(answer: Any) -> list[int]:
    return [
        view.base_offset
        for topic in answer.responses
        for part in topic.partitions
        for view in split(memoryview(part.records or b""))
    ]


async def test_a_session_waits_for_the_last_write_of_those_before() -> None:
    """A write that is late would undo what the next session has stored."""
    broker, states, member = await begun(batches=3)
    assert await member.acquire(max_wait=100) == [(0, 2, 1)]
    await member.must_acknowledge((0, 0, [ACCEPT]))
    may_write, write = asyncio.Event(), states.write

    async def write_late(key: Any, change: Any) -> None:
        await may_write.wait()
        await write(key, change)

    states.write = write_late  # type: ignore[method-assign]
    # The locks end, and this is to be stored.
    await asyncio.sleep(31)
    await member.leave()
    states.write = write  # type: ignore[method-assign]
    other = ShareConsumer(broker, member_id="other")
    assert await other.acquire(max_records=0) == []
    acquiring = asyncio.create_task(other.acquire(max_wait=10_000))
    await asyncio.sleep(5)
    assert not acquiring.done()
    may_write.set()
    assert await acquiring == [(1, 2, 2)]
    await other.must_acknowledge((1, 2, [ACCEPT]))
    assert states.states[member.key()].delivery_complete_count == 2


async def test_records_are_acquired_acknowledged_and_not_given_again() -> None:
    broker, states, member = await begun(batches=5)
    answer = await member.fetch(max_wait=100)
    assert member.acquired == [(0, 4, 1)]
    assert offsets(answer) == [0, 1, 2, 3, 4]
    assert answer.acquisition_lock_timeout.total_seconds() == 30
    await member.must_acknowledge((0, 4, [ACCEPT]))
    assert states.states[member.key()].start_offset == 0
    assert states.states[member.key()].batches == (StateRange(0, 4, 2, 1),)
    await broker.produce("t", b"next")
    assert await member.acquire() == [(5, 5, 1)]


async def test_two_members_share_a_partition() -> None:
    broker, _, first = await begun(batches=4)
    second = ShareConsumer(broker, member_id="n")
    assert await first.acquire(max_wait=100, max_records=2) == [(0, 1, 1)]
    assert await second.acquire(max_records=2) == [(2, 3, 1)]
    await first.must_acknowledge((0, 1, [ACCEPT, RELEASE]))
    assert await second.acquire() == [(1, 1, 2)]


@pytest.mark.parametrize("version", [1, 2])
async def test_acknowledgements_may_come_with_a_fetch(version: int) -> None:
    _, states, member = await begun(batches=3)
    member.version = version
    assert await member.acquire(max_wait=100, max_records=1) == [(0, 0, 1)]
    answer = await member.fetch((0, 0, [ACCEPT]))
    assert member.acquired == [(1, 2, 1)]
    assert answer.responses[0].partitions[0].acknowledge_error_code == 0
    assert states.states[member.key()].batches == (StateRange(0, 0, 2, 1),)


async def test_the_end_of_a_lock_makes_records_available_and_wakes_a_fetch() -> None:
    broker, states, first = await begun(batches=1)
    assert await first.acquire(max_wait=100) == [(0, 0, 1)]
    second = ShareConsumer(broker, member_id="n")
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await second.acquire(max_wait=60_000) == [(0, 0, 2)]
    assert loop.time() - began == pytest.approx(30, abs=0.2)
    refused = await first.acknowledge((0, 0, [ACCEPT]))
    assert refused.responses[0].partitions[0].error_code == 121
    await second.must_acknowledge((0, 0, [ACCEPT]))
    assert states.states[first.key()].batches == (StateRange(0, 0, 2, 2),)


async def test_a_record_is_archived_after_its_last_delivery() -> None:
    _, states, member = await begun(batches=1)
    for delivery in range(1, 6):
        assert await member.acquire(max_wait=100) == [(0, 0, delivery)]
        await member.must_acknowledge((0, 0, [RELEASE]))
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 5),)
    assert await member.acquire() == []


async def test_a_fetch_waits_for_records_and_no_longer_than_it_asks() -> None:
    broker, _, member = await begun()
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await member.acquire(max_wait=500) == []
    assert loop.time() - began == pytest.approx(0.5)
    waiting = asyncio.ensure_future(member.acquire(max_wait=60_000))
    await asyncio.sleep(1)
    await broker.produce("t", b"v")
    assert await waiting == [(0, 0, 1)]
    assert loop.time() - began == pytest.approx(1.5)
    assert len(broker.broker.purgatory) == 0


async def test_one_record_wakes_one_member() -> None:
    broker, _, first = await begun()
    second = ShareConsumer(broker, member_id="n")
    waiting = [asyncio.ensure_future(one.acquire(max_wait=1000)) for one in (first, second)]
    await asyncio.sleep(0.5)
    await broker.produce("t", b"v")
    assert [await one for one in waiting] == [[(0, 0, 1)], []]


async def test_fewer_bytes_than_asked_wait_for_their_time() -> None:
    broker, _, member = await begun(batches=1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await member.acquire(max_wait=500, min_bytes=100_000) == [(0, 0, 1)]
    assert loop.time() - began == pytest.approx(0.5)
    await broker.produce("t", b"x" * 1000)
    assert await member.acquire(max_wait=500, min_bytes=900) == [(1, 1, 1)]
    assert loop.time() - began == pytest.approx(0.5)


async def test_a_strict_limit_shares_a_batch() -> None:
    broker, _, first = await begun()
    second = ShareConsumer(broker, member_id="n")
    await broker.produce("t", *(b"%d" % number for number in range(10)))
    assert await first.acquire(share_acquire_mode=1, max_records=3, max_wait=100) == [(0, 2, 1)]
    assert await second.acquire(max_records=3) == [(3, 9, 1)]


async def test_a_session_has_epochs() -> None:
    broker, _, member = await begun(batches=1)
    stranger = ShareConsumer(broker, member_id="x")
    stranger.epoch = 1
    assert (await stranger.fetch()).error_code == 122
    assert (await stranger.acknowledge((0, 0, [ACCEPT]))).error_code == 122
    member.epoch = 7
    assert (await member.fetch()).error_code == 123
    member.epoch = 0
    assert (await member.acknowledge((0, 0, [ACCEPT]))).error_code == 123
    assert (await member.fetch((0, 0, [ACCEPT]))).error_code == 42


async def test_the_end_of_a_session_releases_what_its_member_has() -> None:
    broker, states, first = await begun(batches=2)
    second = ShareConsumer(broker, member_id="n")
    assert await first.acquire(max_wait=100) == [(0, 1, 1)]
    assert await second.acquire() == []
    assert (await first.leave()).error_code == 0
    assert states.states[first.key()].batches == (StateRange(0, 1, 0, 1),)
    assert await second.acquire() == [(0, 1, 2)]
    second.connection.report_lost()
    await asyncio.sleep(0.1)
    assert states.states[first.key()].batches == (StateRange(0, 1, 0, 2),)
    leader = broker.broker.coordinators.share_leader
    assert (len(leader), len(leader.sessions)) == (0, 0)


async def test_a_fetch_that_waits_ends_with_its_connection() -> None:
    broker, _, member = await begun()
    waiting = asyncio.ensure_future(member.fetch(max_wait=60_000))
    await asyncio.sleep(1)
    member.connection.report_lost()
    await broker.produce("t", b"v")
    await waiting
    assert member.acquired == []
    assert len(broker.broker.purgatory) == 0


async def test_an_acknowledgement_that_is_not_stored_does_not_count() -> None:
    broker, states, member = await begun(batches=1)
    assert await member.acquire(max_wait=100) == [(0, 0, 1)]
    states.fail_with = CoordinatorNotAvailable("not now")
    answer = await member.acknowledge((0, 0, [ACCEPT]))
    assert answer.responses[0].partitions[0].error_code == 15
    states.fail_with = None
    await member.must_acknowledge((0, 0, [ACCEPT]))
    assert await member.acquire() == []
    await broker.produce("t", b"v")
    assert await member.acquire() == [(1, 1, 1)]


async def test_a_leader_that_another_one_followed_gives_the_share_partition_up() -> None:
    broker, states, member = await begun(batches=1)
    assert await member.acquire(max_wait=100) == [(0, 0, 1)]
    states.fail_with = FencedLeaderEpoch("another one leads")
    answer = await member.acknowledge((0, 0, [ACCEPT]))
    assert answer.responses[0].partitions[0].error_code == 6
    assert len(broker.broker.coordinators.share_leader) == 0


async def test_a_state_that_cannot_be_read_is_an_error_until_it_can() -> None:
    broker = await WholeBroker.start()
    states = with_memory_states(broker)
    await broker.create_topic("t")
    await broker.produce("t", b"v")
    member = ShareConsumer(broker)
    member.initialize(states, start=0)
    states.fail_with = CoordinatorNotAvailable("not now")
    answer = await member.fetch(max_wait=1000)
    assert answer.responses[0].partitions[0].error_code == 15
    states.fail_with = None
    assert await member.acquire(max_wait=1000) == [(0, 0, 1)]


async def test_a_new_leader_continues_from_what_is_stored() -> None:
    broker, states, _ = await begun(batches=0)
    for number in range(6):
        await broker.produce("t", b"%d" % number)
    other = ShareConsumer(broker, group_id="h")
    states.states[other.key()] = ShareState(
        3, 1, (StateRange(1, 1, 2, 1), StateRange(3, 3, 0, 2), StateRange(4, 4, 4, 5))
    )
    assert await other.acquire(max_wait=100) == [(2, 2, 1), (3, 3, 3), (5, 5, 1)]
    await other.must_acknowledge((2, 3, [ACCEPT]), (5, 5, [ACCEPT]))


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 3), ("by_duration:PT1H", 0)])
async def test_a_group_begins_where_its_setting_says(reset: str, first: int) -> None:
    broker, states, _ = await begun(batches=3)
    await set_group(broker, "new", **{"share.auto.offset.reset": reset})
    member = ShareConsumer(broker, group_id="new")
    member.initialize(states)
    assert await member.acquire(max_wait=100) == ([(0, 2, 1)] if first == 0 else [])
    await broker.produce("t", b"v")
    assert await member.acquire() == [(3, 3, 1)]


async def set_group(broker: WholeBroker, group_id: str, **texts: str) -> None:
    resource = {
        "resource_type": 32,
        "resource_name": group_id,
        "configs": [{"name": name, "config_operation": 0, "value": text} for name, text in texts.items()],
    }
    answer = await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


async def test_a_lock_is_renewed() -> None:
    broker, _, member = await begun(batches=1)
    other = ShareConsumer(broker, member_id="n")
    assert await member.acquire(max_wait=100) == [(0, 0, 1)]
    await asyncio.sleep(20)
    refused = await member.acknowledge((0, 0, [RENEW]))
    assert refused.responses[0].partitions[0].error_code == 42
    await member.must_acknowledge((0, 0, [RENEW]), is_renew_ack=True)
    await asyncio.sleep(20)
    assert await other.acquire() == []
    renewing: dict[str, Any] = {
        "is_renew_ack": True,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 0,
        "max_records": 0,
    }
    assert (await member.fetch((0, 0, [RENEW]), **{**renewing, "max_bytes": 1})).error_code == 42
    assert (await member.fetch((0, 0, [RENEW]), **renewing)).error_code == 0
    await asyncio.sleep(29)
    assert await other.acquire() == []
    await asyncio.sleep(2)
    assert await other.acquire() == [(0, 0, 2)]


@pytest.mark.parametrize(
    ("first", "last", "types"),
    [(1, 0, [1]), (0, 1, []), (0, 1, [1, 1, 1]), (0, 0, [5]), (0, 0, [-1]), (0, 99, [1])],
)
async def test_acknowledgements_that_no_client_should_send_are_refused(
    first: int, last: int, types: list[int]
) -> None:
    _, _, member = await begun(batches=2)
    assert await member.acquire(max_wait=100) == [(0, 1, 1)]
    answer = await member.acknowledge((first, last, types))
    assert answer.responses[0].partitions[0].error_code == 42
    await member.must_acknowledge((0, 1, [ACCEPT, REJECT]))


async def test_unknown_topics_and_partitions_have_errors_of_their_own() -> None:
    _, _, member = await begun()
    member.epoch = 0
    named = [
        {"topic_id": topic_id, "partitions": [{"partition_index": index, "acknowledgement_batches": []}]}
        for topic_id, index in ((UUID(int=9), 0), (member.topic_id("t"), 7))
    ]
    answer = await member.fetch(topics=named, max_wait=60_000)
    codes = {
        (topic.topic_id, part.partition_index): part.error_code
        for topic in answer.responses
        for part in topic.partitions
    }
    assert codes == {(UUID(int=9), 0): 100, (member.topic_id("t"), 7): 3}


async def test_a_topic_that_is_deleted_ends_the_wait() -> None:
    broker, _, member = await begun()
    waiting = asyncio.ensure_future(member.fetch(max_wait=60_000))
    await asyncio.sleep(1)
    await broker.broker.control.controller.delete_topics(["t"])
    answer = await waiting
    assert answer.responses[0].partitions[0].error_code == 3
    assert len(broker.broker.coordinators.share_leader) == 0


async def test_a_broker_has_a_bounded_number_of_sessions() -> None:
    broker, _, _ = await begun(group_share_max_share_sessions="1")
    other = ShareConsumer(broker, member_id="n")
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await other.fetch(max_wait=500)).error_code == 133
    assert loop.time() - began == pytest.approx(0.5)


async def test_requests_without_group_or_member_are_refused() -> None:
    _, _, member = await begun()
    for fields in ({"group_id": None}, {"member_id": None}, {"member_id": "x" * 37}):
        assert (await member.fetch(**fields)).error_code == 42
        assert (await member.acknowledge((0, 0, [1]), **fields)).error_code == 42


async def test_deleted_records_are_not_in_flight_any_more() -> None:
    broker, _, member = await begun(batches=6)
    assert await member.acquire(max_wait=100, max_records=3) == [(0, 2, 1)]
    deleted = await broker.ask(
        ApiKey.DELETE_RECORDS,
        2,
        timeout=1000,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 5}]}],
    )
    assert deleted.topics[0].partitions[0].error_code == 0
    assert await member.acquire() == [(5, 5, 1)]
    await member.must_acknowledge((0, 2, [ACCEPT]))


async def test_no_more_records_are_in_flight_than_the_group_allows() -> None:
    broker, _, member = await begun()
    await set_group(broker, "g", **{"share.partition.max.record.locks": "100"})
    await broker.produce("t", *[b"v"] * 80)
    await broker.produce("t", *[b"v"] * 80)
    assert await member.acquire(max_wait=100) == [(0, 159, 1)]
    await broker.produce("t", b"v")
    assert await member.acquire() == []
    await member.must_acknowledge((0, 99, [ACCEPT]))
    assert await member.acquire() == [(160, 160, 1)]


async def test_records_of_aborted_transactions_are_archived() -> None:
    broker, states, _ = await begun(batches=1)
    await set_group(broker, "c", **{"share.isolation.level": "read_committed"})
    member = ShareConsumer(broker, group_id="c")
    member.initialize(states, start=0)
    producer = await TransactionalProducer(broker).begin()
    await producer.produce("t", b"aborted")
    assert await member.acquire(max_wait=100) == [(0, 0, 1)]
    assert await member.acquire(max_wait=100) == []
    waiting = asyncio.ensure_future(member.acquire(max_wait=60_000))
    await producer.end(commit=False)
    # The marker of the end is acquired too, and acknowledged as a gap.
    assert await waiting == [(2, 2, 1)]
    await broker.produce("t", b"after")
    assert await member.acquire() == [(3, 3, 1)]
    await member.must_acknowledge((0, 0, [ACCEPT]), (2, 3, [0, ACCEPT]))


async def test_a_member_above_its_quota_waits_and_loses_no_records() -> None:
    broker, _, member = await begun(batches=0)
    for _ in range(3):
        await broker.produce("t", b"x" * 50_000)
    await broker.broker.control.controller.change_client_configs(
        [ClientConfigChange(ClientEntity(client_id=""), {"consumer_byte_rate": "10000"})]
    )
    broker.dispatcher = broker.broker.listeners[0]._dispatch  # type: ignore[assignment]
    answer = await member.fetch(max_wait=100, max_records=1)
    assert (member.acquired, answer.throttle_time.total_seconds()) == ([(0, 0, 1)], 0)
    answer = await member.fetch(max_records=2)
    assert member.acquired == [(1, 1, 1)]
    throttle_seconds = answer.throttle_time.total_seconds()
    assert throttle_seconds > 0
    # While it has to wait, nothing is acquired for it.
    answer = await member.fetch(max_records=1)
    assert member.acquired == []
    assert answer.throttle_time.total_seconds() > 0
    await asyncio.sleep(30)
    assert await member.acquire(max_records=1) != []


async def test_a_cluster_without_the_feature_has_no_share_groups() -> None:
    broker, _, member = await begun()
    updated = await broker.ask(
        ApiKey.UPDATE_FEATURES,
        1,
        timeout=1000,
        feature_updates=[{"feature": "share.version", "max_version_level": 0, "upgrade_type": 2}],
        validate_only=False,
    )
    assert updated.error_code == 0, updated
    assert (await member.fetch()).error_code == 35
    assert (await member.acknowledge((0, 0, [ACCEPT]))).error_code == 35
