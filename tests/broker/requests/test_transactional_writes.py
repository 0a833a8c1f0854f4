"""Transactions at the leaders of partitions and groups, through the bytes of both versions and a real coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import split
from odradek.wire.records.record import records
from tests.support.loop import run
from tests.support.stories import told_by
from tests.support.transactional_producer import TransactionalProducer
from tests.support.whole_broker import WholeBroker, batch

Story = Callable[[WholeBroker], Awaitable[None]]
READ_COMMITTED = 1


def run_story(story: Story, **entries: str) -> None:
    """Run a story on a broker with a topic of two partitions."""

    async def scenario() -> None:
        broker = await WholeBroker.start({"offsets.topic.num.partitions": "3", **entries})
        await broker.create_topic("t", partitions=2)
        await story(broker)

    run(scenario())


async def fetched(broker: WholeBroker, *, offset: int = 0, isolation_level: int = READ_COMMITTED) -> Any:
    fields = broker.fetch_fields(("t", 0, offset), isolation_level=isolation_level)
    answer = await broker.ask(ApiKey.FETCH, 11, **fields)
    return answer.responses[0].partitions[0]


def values(partition: Any) -> list[bytes | None]:
    """What a client makes of an answer: without control records and aborted ones."""
    aborted = sorted(partition.aborted_transactions or (), key=lambda one: one.first_offset)
    hidden: set[int] = set()
    found = []
    for one in split(memoryview(partition.records or b""), may_be_cut=True):
        while aborted and aborted[0].first_offset <= one.last_offset:
            hidden.add(aborted.pop(0).producer_id)
        if one.is_control:
            hidden.discard(one.producer_id)
        elif one.producer_id not in hidden or not one.is_transactional:
            found += [record.value for record in records(one)]
    return found


async def settled(broker: WholeBroker) -> None:
    """Let the coordinator's markers arrive."""
    for _ in range(50):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("version", [1, 2])
@told_by(run_story)
async def test_readers_of_committed_records_see_whole_transactions(broker: WholeBroker, version: int) -> None:
    producer = await TransactionalProducer(broker, version=version).begin()
    for number, commit in enumerate((True, False, True)):
        if version == 1:
            await producer.add("t", 0)
        assert await producer.produce("t", b"a%d" % number, b"b%d" % number) == 0
        assert await producer.produce("t", b"c%d" % number) == 0
        open_now = await fetched(broker)
        assert open_now.last_stable_offset < open_now.high_watermark
        assert b"a%d" % number not in values(open_now)
        assert await producer.end(commit=commit) == 0
        await settled(broker)
    answer = await fetched(broker)
    assert answer.last_stable_offset == answer.high_watermark == 12
    assert values(answer) == [b"a0", b"b0", b"c0", b"a2", b"b2", b"c2"]
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [(0, 4)]
    plain = await fetched(broker, isolation_level=0)
    assert plain.aborted_transactions is None
    assert len(values(plain)) == 9


@told_by(run_story)
async def test_readers_of_committed_records_get_an_empty_list_of_aborted_ones(broker: WholeBroker) -> None:
    assert (await fetched(broker)).aborted_transactions == ()
    await broker.produce("t", b"x")
    assert (await fetched(broker)).aborted_transactions == ()
    assert (await fetched(broker, isolation_level=0)).aborted_transactions is None


@told_by(run_story)
async def test_the_latest_of_committed_records_is_the_last_stable_offset(broker: WholeBroker) -> None:
    async def latest(isolation_level: int) -> int:
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        answer = await broker.ask(
            ApiKey.LIST_OFFSETS, 5, isolation_level=isolation_level, topics=topics, replica_id=-1
        )
        return int(answer.topics[0].partitions[0].offset)

    await broker.produce("t", b"x")
    producer = await TransactionalProducer(broker).begin()
    assert await producer.produce("t", b"a") == 0
    assert (await latest(0), await latest(READ_COMMITTED)) == (2, 1)
    assert await producer.end(commit=True) == 0
    await settled(broker)
    assert (await latest(0), await latest(READ_COMMITTED)) == (3, 3)


@told_by(run_story)
async def test_the_next_transaction_begins_while_the_last_one_is_being_ended(broker: WholeBroker) -> None:
    """The write asks again for a short time, instead of the client."""
    producer = await TransactionalProducer(broker).begin()
    for number in range(20):
        assert await producer.produce("t", b"%d" % number) == 0
        assert await producer.end(commit=True) == 0
    await settled(broker)
    assert values(await fetched(broker)) == [b"%d" % number for number in range(20)]


@told_by(run_story)
async def test_a_write_without_a_partition_in_the_transaction_is_refused(broker: WholeBroker) -> None:
    producer = await TransactionalProducer(broker, version=1).begin()
    await producer.add("t", 1)
    assert await producer.produce("t", b"a") == 120
    asked = producer.produce_fields("t", 0, (b"a",), base_sequence=0)
    for version, code in ((10, 48), (11, 120)):
        answer = await broker.ask(ApiKey.PRODUCE, version, **asked)
        assert answer.responses[0].partition_responses[0].error_code == code
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 0


@told_by(run_story)
async def test_a_write_of_an_older_instance_is_fenced(broker: WholeBroker) -> None:
    old = await TransactionalProducer(broker).begin()
    assert await old.produce("t", b"old") == 0
    new = TransactionalProducer(broker)
    answer = await broker.ask(ApiKey.INIT_PRODUCER_ID, 5, transactional_id="tx", transaction_timeout=60_000)
    assert answer.error_code == 51
    await settled(broker)
    await new.begin()
    assert await old.produce("t", b"late") == 47
    assert await old.produce("t", b"late", partition=1) == 47
    assert await new.produce("t", b"new") == 0
    assert await new.end(commit=True) == 0
    await settled(broker)
    assert values(await fetched(broker)) == [b"new"]


@told_by(run_story)
async def test_records_of_a_transaction_need_its_id_and_one_producer(broker: WholeBroker) -> None:
    producer = await TransactionalProducer(broker).begin()
    for version in (8, 12):
        fields = producer.produce_fields("t", 0, (b"a",), base_sequence=0)
        answer = await broker.ask(ApiKey.PRODUCE, version, **{**fields, "transactional_id": None})
        assert answer.responses[0].partition_responses[0].error_code == 53
    two = [
        {
            "index": index,
            "records": batch(
                [b"a"],
                producer_id=index,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            ),
        }
        for index in range(2)
    ]
    answer = await broker.ask(
        ApiKey.PRODUCE,
        12,
        transactional_id="tx",
        acks=-1,
        timeout=1000,
        topic_data=[{"name": "t", "partition_data": two}],
    )
    assert [one.error_code for one in answer.responses[0].partition_responses] == [49, 49]
    assert await producer.produce("t", b"a", producer_id=99) == 49


def test_a_switched_off_verification_lets_version_1_write_at_once() -> None:
    async def story(broker: WholeBroker) -> None:
        producer = await TransactionalProducer(broker, version=1).begin()
        assert await producer.produce("t", b"a") == 0

    run_story(story, **{"transaction.partition.verification.enable": "false"})


# --- markers ---------------------------------------------------------------------------------------------------------


async def marked(
    broker: WholeBroker, producer: TransactionalProducer, *partitions: int, version: int = 2, **fields: Any
) -> list[int]:
    row = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": partitions}],
        **fields,
    }
    answer = await broker.ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[row])
    (one,) = answer.markers
    assert one.producer_id == row["producer_id"]
    return [int(code.error_code) for topic in one.topics for code in topic.partitions]


@pytest.mark.thorough
@pytest.mark.parametrize("version", [1, 2])
@told_by(run_story)
async def test_an_administrator_ends_a_transaction_that_hangs(broker: WholeBroker, version: int) -> None:
    producer = await TransactionalProducer(broker).begin()
    assert await producer.produce("t", b"a") == 0
    asked = [{"name": "t", "partition_indexes": [0, 9]}]
    answer = await broker.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)
    known, missing = answer.topics[0].partitions
    assert missing.error_code == 3
    (active,) = known.active_producers
    assert (active.producer_id, active.producer_epoch, active.current_txn_start_offset) == (0, 0, 0)
    assert active.coordinator_epoch == -1
    assert await marked(broker, producer, 0, 9, version=version) == [0, 3]
    answer = await fetched(broker)
    assert (values(answer), answer.last_stable_offset) == ([], 2)


@told_by(run_story)
async def test_markers_are_fenced_by_epochs(broker: WholeBroker) -> None:
    producer = await TransactionalProducer(broker).begin()
    assert await producer.produce("t", b"a") == 0
    late = {"producer_epoch": 1, "transaction_version": 2}
    assert await marked(broker, producer, 0, transaction_version=2) == [47]
    assert await marked(broker, producer, 0, coordinator_epoch=5, **late) == [0]
    assert await marked(broker, producer, 0, coordinator_epoch=5, **late) == [0], "it has come before"
    assert await marked(broker, producer, 0, coordinator_epoch=4, **late) == [52]
    assert await marked(broker, producer, 0, coordinator_epoch=6) == [47]
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 2


# --- offsets ---------------------------------------------------------------------------------------------------------


async def offset(broker: WholeBroker, *, require_stable: bool = True) -> tuple[int, int]:
    """(offset, error) in the answer to a consumer."""
    answer = await broker.ask(
        ApiKey.OFFSET_FETCH,
        7,
        group_id="g",
        topics=[{"name": "t", "partition_indexes": [0]}],
        require_stable=require_stable,
    )
    one = answer.topics[0].partitions[0]
    return int(one.committed_offset), int(one.error_code)


@pytest.mark.parametrize("version", range(6))
@told_by(run_story)
async def test_offsets_of_a_transaction_count_once_it_is_committed(broker: WholeBroker, version: int) -> None:
    producer = await TransactionalProducer(broker, version=2 if version >= 5 else 1).begin()
    for number, commit in enumerate((True, False)):
        if version < 5:
            assert await producer.add_offsets("g") == 0
        else:
            await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        errors = []
        for _ in range(100):
            # A client repeats CONCURRENT_TRANSACTIONS by itself.
            errors = await producer.commit_offsets(
                "g", ("t", 0, 10 + number), ("missing", 0, 1), ("t", 9, 1), version=version
            )
            if errors[0] != 51:
                break
            await asyncio.sleep(0.02)
        assert errors == [0, 3, 3]
        assert await offset(broker, require_stable=False) == ((-1, 0) if number == 0 else (10, 0))
        assert await offset(broker) == (-1, 88)
        assert await producer.end(commit=commit) == 0
        await settled(broker)
        assert await offset(broker) == (10, 0)


@told_by(run_story)
async def test_offsets_without_the_group_in_the_transaction_are_refused(broker: WholeBroker) -> None:
    producer = await TransactionalProducer(broker, version=1).begin()
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    for version, code in ((3, 48), (4, 120)):
        assert await producer.commit_offsets("g", ("t", 0, 1), version=version) == [code]
    assert await producer.commit_offsets("g", ("t", 0, 1), version=4, producer_epoch=9) == [47]
    assert await producer.commit_offsets("g", ("t", 0, 1), version=3, transactional_id="other") == [49]
    assert await offset(broker) == (-1, 0)


@told_by(run_story)
async def test_a_transaction_of_records_and_offsets_survives_a_restart(broker: WholeBroker) -> None:
    producer = await TransactionalProducer(broker).begin()
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    assert await producer.produce("t", b"a") == 0
    assert await producer.commit_offsets("g", ("t", 0, 7)) == [0]
    again = await broker.restart()
    await again.broker.coordinators.groups.runtime.wait_until_loaded()
    producer.broker = again
    assert await offset(again) == (-1, 88)
    assert values(await fetched(again)) == []
    await again.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"])
    await settled(again)
    assert await producer.end(commit=True) == 0
    await settled(again)
    assert await offset(again) == (7, 0)
    assert values(await fetched(again)) == [b"a"]
    broker.broker = again.broker
