"""flush.messages: nothing is acknowledged or shown before it is as safe as asked for, and many wait for one sync."""

from __future__ import annotations

import asyncio
import errno
import inspect
import random
from typing import Any

import pytest

from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.wire.protocol.api import ApiKey
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, stored_records
from tests.support.loop import run
from tests.support.whole_broker import WholeBroker, batch, decoded

LOG_FILE = "/logs/t-0/00000000000000000000.log"
STORAGE_ERROR = 56
UNKNOWN_TOPIC_OR_PARTITION = 3


async def _broker(*, flush_messages: int = 1, segment_bytes: int = 1 << 20) -> WholeBroker:
    broker = await WholeBroker.start()
    await broker.create_topic(
        "t", flush_messages=str(flush_messages), internal_segment_bytes=str(segment_bytes)
    )
    return broker


def _after_the_crash(disk: SimulatedDisk) -> Log:
    return Log.open(
        "/logs/t-0",
        TopicPartition("t", 0),
        config=LogConfig(),
        disk=disk,
        clock=StillClock(),
        clean=False,
    )


def _partition(broker: WholeBroker) -> Partition:
    return broker.broker.partitions.get("t", 0)


def _syncs(broker: WholeBroker) -> int:
    return broker.disk.calls.count(("sync", LOG_FILE))


def _send(broker: WholeBroker, *values: bytes, acks: int = 1, version: int = 9, **fields: Any) -> Any:
    """What the dispatcher gives for one batch: the answer, or what to await for it."""
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(values, **fields)}]}]
    return broker.send(ApiKey.PRODUCE, version, acks=acks, timeout=1000, topic_data=data)


async def _answered(answer: Any, version: int = 9) -> Any:
    if inspect.isawaitable(answer):
        answer = await answer
    return decoded(ApiKey.PRODUCE, version, answer).responses[0].partition_responses[0]


async def _readable(broker: WholeBroker) -> int:
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0), min_bytes=0))
    return len(answer.responses[0].partitions[0].records or b"")


# Version 3 takes the slow path, 9 the fast one.
@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("acks", [1, -1])
async def test_an_answer_waits_for_the_flush_and_readers_do_too(acks: int, version: int) -> None:
    broker = await _broker()
    answer = _send(broker, b"a", b"b", acks=acks, version=version)
    partition = _partition(broker)
    assert inspect.isawaitable(answer)
    assert (partition.log.log_end_offset, partition.log.recovery_point) == (2, 0)
    assert partition.high_watermark == 0 and await _readable(broker) == 0
    result = await _answered(answer, version)
    assert (result.error_code, result.base_offset) == (0, 0)
    assert partition.log.recovery_point == partition.high_watermark == 2
    assert await _readable(broker) > 0
    broker.disk.crash()
    assert _after_the_crash(broker.disk).log_end_offset == 2


async def test_produces_of_one_turn_share_one_sync() -> None:
    broker = await _broker()
    answers = [_send(broker, b"v") for _ in range(50)]
    offsets = [(await _answered(answer)).base_offset for answer in answers]
    assert offsets == list(range(50))
    assert _syncs(broker) == 1 and _partition(broker).high_watermark == 50


async def test_only_every_third_record_waits_when_three_may_be_unflushed() -> None:
    broker = await _broker(flush_messages=3)
    partition = _partition(broker)
    for expected in (1, 2):
        assert isinstance(_send(broker, b"v"), bytes)
        assert partition.high_watermark == expected
    third = _send(broker, b"v")
    fourth = _send(broker, b"v")
    assert inspect.isawaitable(third) and inspect.isawaitable(fourth)
    assert partition.high_watermark == 2
    assert (await _answered(third)).base_offset == 2
    assert (await _answered(fourth)).base_offset == 3
    assert (_syncs(broker), partition.high_watermark) == (1, 4)
    assert isinstance(_send(broker, b"v"), bytes)


async def test_never_more_than_asked_for_is_acknowledged_and_unflushed() -> None:
    broker = await _broker(flush_messages=5)
    partition = _partition(broker)
    rng = random.Random(3)
    waiting = []
    for _ in range(300):
        answer = _send(broker, *[b"v"] * rng.randint(1, 3))
        if inspect.isawaitable(answer):
            waiting.append(asyncio.ensure_future(answer))
        assert partition.high_watermark - partition.log.recovery_point < 5
        if rng.random() < 0.3:
            await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert partition.high_watermark == partition.log.log_end_offset
    assert 0 < _syncs(broker) < len(waiting)


async def test_a_failed_flush_fails_all_waiting_requests() -> None:
    broker = await _broker()
    first, second = _send(broker, b"a"), _send(broker, b"b")
    broker.disk.fail_call(0, errno.EIO)
    for answer in (first, second):
        result = await _answered(answer)
        assert result.error_code == STORAGE_ERROR
    assert _partition_is_offline(broker)
    assert (await _answered(_send(broker, b"c"))).error_code == STORAGE_ERROR


def _partition_is_offline(broker: WholeBroker) -> bool:
    partition = _partition(broker)
    return partition.gone is not None and partition.high_watermark == 0


async def test_a_duplicate_waits_as_its_first_sending_does() -> None:
    broker = await _broker()
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    answers = [_send(broker, b"a", **fields) for _ in range(3)]
    assert all(inspect.isawaitable(answer) for answer in answers)
    for answer in answers:
        result = await _answered(answer)
        assert (result.error_code, result.base_offset) == (0, 0)
    assert _partition(broker).high_watermark == 1
    assert isinstance(_send(broker, b"a", **fields), bytes)


async def test_a_fetch_that_waits_is_woken_by_the_flush() -> None:
    broker = await _broker()
    fields = broker.fetch_fields(("t", 0, 0), max_wait_ms=60_000)
    fetch = asyncio.ensure_future(broker.ask(ApiKey.FETCH, 11, **fields))
    await asyncio.sleep(1)
    produced = asyncio.ensure_future(_answered(_send(broker, b"a")))
    started = asyncio.get_running_loop().time()
    found = (await fetch).responses[0].partitions[0]
    assert found.records and found.high_watermark == 1
    assert asyncio.get_running_loop().time() == started
    assert (await produced).error_code == 0


async def test_acks_0_is_flushed_too() -> None:
    broker = await _broker()
    for _ in range(5):
        assert _send(broker, b"a", acks=0) is None
    assert _partition(broker).high_watermark == 0
    await broker.broker.flusher.drain()
    assert _partition(broker).high_watermark == 5


async def test_the_deletion_of_the_topic_ends_the_wait() -> None:
    broker = await _broker()
    partition = _partition(broker)
    first = _send(broker, b"a")
    second = asyncio.ensure_future(partition.wait_until_committed(0, seconds_max=60))
    await broker.broker.control.controller.delete_topics(["t"])
    assert (await _answered(first)).error_code in (0, UNKNOWN_TOPIC_OR_PARTITION)
    with pytest.raises(UnknownTopicOrPartition):
        partition.require_leader().append(b"", required_acks=1)
    await asyncio.wait([second])


async def test_a_relaxed_setting_releases_waiting_requests() -> None:
    broker = await _broker()
    partition = _partition(broker)
    first = _send(broker, b"a")
    partition.log.reconfigure(type(partition.log.config)())
    assert isinstance(_send(broker, b"b"), bytes)
    assert (await _answered(first)).base_offset == 0
    assert partition.high_watermark == 2


async def test_group_state_waits_for_its_flush() -> None:
    broker = await WholeBroker.start({"log.flush.interval.messages": "1"})
    log = broker.broker.coordinators.groups.runtime.log
    await log.ensure_topic()
    answer = log.append(3, bytearray(batch([b"v"])))
    assert inspect.isawaitable(answer)
    assert await answer == 0
    found = broker.broker.partitions.get("__consumer_offsets", 3)
    assert found.log.recovery_point == found.high_watermark == 1


@pytest.mark.parametrize("seed", range(15))
def test_what_was_acknowledged_survives_the_loss_of_power(seed: int) -> None:
    """Crash at a random moment, with produces, syncs and a roll under way."""

    async def story() -> tuple[SimulatedDisk, dict[int, bytes]]:
        rng = random.Random(seed)
        broker = await _broker(segment_bytes=2000)
        acknowledged: dict[int, bytes] = {}

        async def produce(value: bytes) -> None:
            result = await _answered(_send(broker, value))
            if result.error_code == 0:
                acknowledged[result.base_offset] = value

        tasks = []
        for number in range(rng.randint(5, 60)):
            tasks.append(asyncio.ensure_future(produce(b"%d" % number + b"x" * rng.randint(0, 300))))
            for _ in range(rng.choice((0, 0, 1, 3))):
                await asyncio.sleep(0)
        broker.disk.crash(rng)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return broker.disk, acknowledged

    disk, acknowledged = run(story())
    log = _after_the_crash(disk)
    kept = {record.offset: record.value for record in stored_records(log)}
    assert acknowledged and acknowledged.items() <= kept.items()
