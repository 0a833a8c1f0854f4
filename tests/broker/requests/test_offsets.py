"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId, DescribeProducers, DescribeLogDirs."""

import asyncio
from typing import Any

import pytest

from odradek.metadata.image.image import PartitionImage
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_broker import START_MS, WholeBroker, decoded


async def with_records() -> WholeBroker:
    """Offsets 0 to 3 at START, +10, +30, +20 ms; the log starts at 1."""
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    for delta in (0, 10, 30, 20):
        await broker.produce("t", b"v", timestamp_ms=START_MS + delta)
    broker.broker.partitions.get("t", 0).require_leader().delete_records(1)
    return broker


async def look_up(broker: WholeBroker, timestamp: int, *, version: int = 7, **fields: Any) -> Any:
    answer = await broker.ask(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp, **fields}]}],
    )
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "offset", "delta"),
    [
        (-1, 4, None),
        (-2, 1, None),
        (-3, 2, 30),
        (-4, 1, None),
        (-5, -1, None),
        (START_MS, 1, 10),
        (START_MS + 10, 1, 10),
        (START_MS + 11, 2, 30),
        (START_MS + 30, 2, 30),
        (START_MS + 31, -1, None),
    ],
)
async def test_times_and_special_values(timestamp: int, offset: int, delta: int | None) -> None:
    broker = await with_records()
    found = await look_up(broker, timestamp, version=9)
    assert (found.error_code, found.offset) == (0, offset)
    assert found.timestamp == (-1 if delta is None else START_MS + delta)


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_knows_earliest_and_latest(version: int) -> None:
    broker = await with_records()
    assert (await look_up(broker, -2, version=version)).offset == 1
    assert (await look_up(broker, -1, version=version)).offset == 4


@pytest.mark.parametrize("timestamp", [-1, -3])
async def test_an_end_asked_for_behind_a_fetch_that_waits_is_not_older_than_it(timestamp: int) -> None:
    broker = await with_records()
    fields = broker.fetch_fields(("t", 0, 4), max_wait_ms=60_000)
    fetched = broker.send(ApiKey.FETCH, 11, **fields)
    asked = asyncio.ensure_future(look_up(broker, timestamp))
    await asyncio.sleep(0)
    assert not asked.done()
    await broker.produce("t", b"v", timestamp_ms=START_MS + 40)
    assert decoded(ApiKey.FETCH, 11, await fetched).responses[0].partitions[0].high_watermark == 5
    assert (await asked).offset == (5 if timestamp == -1 else 4)


async def test_an_end_is_told_when_the_fetch_before_it_is_over_without_records() -> None:
    broker = await with_records()
    broker.send(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 4), max_wait_ms=500))
    assert (await look_up(broker, -1)).offset == 4
    assert (await look_up(broker, -1)).offset == 4, "nothing is left to wait for"
    assert not any(broker.connection.state.values()), "an answer that was given is not kept"


async def test_a_wrong_epoch_an_unknown_partition_and_a_wrong_time_are_refused() -> None:
    broker = await with_records()
    assert (await look_up(broker, -1, current_leader_epoch=5)).error_code == 75
    assert (await look_up(broker, -9)).error_code == 35
    assert (await look_up(broker, -1, partition_index=3)).error_code == 3


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9)])
async def test_special_values_are_unknown_to_older_versions(timestamp: int, first: int) -> None:
    broker = await with_records()
    assert (await look_up(broker, timestamp, version=first)).error_code == 0
    refused = await look_up(broker, timestamp, version=first - 1)
    assert (refused.error_code, refused.offset, refused.timestamp) == (35, -1, -1)


async def test_a_partition_asked_for_twice_is_refused() -> None:
    broker = await with_records()
    asked = {"partition_index": 0, "timestamp": -1}
    topics = [{"name": "t", "partitions": [asked, asked]}]
    answer = await broker.ask(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=topics)
    assert [answered.error_code for answered in answer.topics[0].partitions] == [42]


async def test_an_empty_log_has_no_newest_record() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    for timestamp, offset in ((-1, 0), (-2, 0), (-3, -1), (START_MS, -1)):
        assert (await look_up(broker, timestamp)).offset == offset


@pytest.mark.parametrize(("policy", "code"), [("compact", 44), ("compact,delete", 0)])
async def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(policy: str, code: int) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", cleanup_policy=policy)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}]
    answer = await broker.ask(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=1000)
    assert answer.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_epochs_end_where_the_next_begins(version: int) -> None:
    broker = await with_records()
    partition = broker.broker.partitions.get("t", 0)
    partition.take_role(PartitionImage(0, 1, 4, (1,), (1,), 9))
    await broker.produce("t", b"v")

    async def ask(epoch: int, index: int = 0) -> tuple[int, int, int]:
        answer = await broker.ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            version,
            topics=[{"topic": "t", "partitions": [{"partition": index, "leader_epoch": epoch}]}],
        )
        answered = answer.topics[0].partitions[0]
        return int(answered.error_code), answered.leader_epoch, answered.end_offset

    assert await ask(0) == (0, 0, 4)
    assert await ask(2) == (0, 0, 4)
    assert await ask(4) == (0, 4, 5)
    assert await ask(5) == (0, -1, -1)
    assert await ask(0, index=9) == (3, -1, -1)


@pytest.mark.parametrize(
    ("before", "code", "start"), [(3, 0, 3), (-1, 0, 4), (4, 0, 4), (5, 1, -1), (-2, 1, -1)]
)
async def test_records_are_deleted_up_to_the_high_watermark(before: int, code: int, start: int) -> None:
    broker = await with_records()
    answer = await broker.ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": before}]}],
        timeout=1000,
    )
    answered = answer.topics[0].partitions[0]
    assert (answered.error_code, answered.low_watermark) == (code, start)
    assert (await look_up(broker, -2)).offset == (1 if code else start)


async def test_producer_ids_are_never_given_twice_not_even_after_a_restart() -> None:
    given: list[int] = []
    broker = await WholeBroker.start()
    for _ in range(3):
        for _ in range(5):
            answer = await broker.ask(
                ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=1000
            )
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            given.append(answer.producer_id)
        broker = await broker.restart()
    assert len(set(given)) == 15


async def test_producers_are_described() -> None:
    broker = await with_records()
    await broker.produce("t", b"a", b"b", producer_id=8, producer_epoch=1, base_sequence=0)
    answer = await broker.ask(
        ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "t", "partition_indexes": [0, 7]}]
    )
    known, unknown = answer.topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (8, 1, 1)
    assert unknown.error_code == 3


async def test_a_cordon_is_shown_with_each_directory() -> None:
    broker = await with_records()
    shown = []
    for value in ("*", ""):
        configs = [{"name": "cordoned.log.dirs", "config_operation": 0, "value": value}]
        resource = {"resource_type": 4, "resource_name": str(broker.broker.broker_id), "configs": configs}
        answer = await broker.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
        )
        assert int(answer.responses[0].error_code) == 0
        described = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=[])
        shown += [directory.is_cordoned for directory in described.results]
    assert shown == [True, False]


@pytest.mark.parametrize("version", range(1, 6))
async def test_log_directories_are_described(version: int) -> None:
    broker = await with_records()
    (directory,) = (await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)).results
    assert (directory.error_code, directory.log_dir) == (0, "/logs")
    (topic,) = directory.topics
    assert topic.partitions[0].partition_size == broker.broker.partitions.get("t", 0).log.size_bytes > 0
    (directory,) = (await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=[])).results
    assert directory.topics == ()
