"""One contract for every offsets log: the one in memory that tests use, and the broker's own partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from odradek.broker.coordination.internal_topic import ReplicatedTopicLog
from odradek.broker.coordination.topic_log import InternalTopicLog
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.local_control import LocalControl
from odradek.foundation.settings.broker_settings import Settings
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC
from odradek.wire.records.batch import split
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import records
from tests.support.coordinator_world import result_of
from tests.support.offsets_log import MemoryOffsetsLog

Open = Callable[[Path], AbstractAsyncContextManager[InternalTopicLog]]


def broker_settings(path: Path) -> Settings:
    return Settings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(path / "data"),
            "offsets.topic.num.partitions": "3",
        }
    )


@asynccontextmanager
async def in_memory(path: Path) -> AsyncIterator[InternalTopicLog]:
    yield MemoryOffsetsLog(3, exists=False)


@asynccontextmanager
async def in_a_broker(path: Path) -> AsyncIterator[InternalTopicLog]:
    broker = BrokerProcess(broker_settings(path), control=LocalControl())
    await broker.start()
    try:
        yield ReplicatedTopicLog(
            OFFSETS_TOPIC,
            partitions=broker.partitions,
            images=broker.images,
            controller=broker.controller,
            new_topic_partitions=broker.settings.offsets_topic_num_partitions,
            commit_timeout_ms=broker.settings.offsets_commit_timeout_ms,
        )
    finally:
        await broker.stop()


def batch(*values: bytes) -> bytearray:
    return build_batch([(0, b"key", value) for value in values])


async def values_from(
    log: InternalTopicLog, offset: int, *, bytes_max: int = 1 << 20
) -> list[tuple[int, bytes | None]]:
    data = log.read(1, offset, bytes_max=bytes_max)
    if isinstance(data, Awaitable):
        data = await data
    return [
        (record.offset, record.value)
        for part in split(memoryview(data), may_be_cut=True)
        for record in records(part)
    ]


@pytest.mark.parametrize("opened", [in_memory, in_a_broker])
async def test_contract(opened: Open, tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        assert log.partition_count() == 3
        assert list(log.list_led_partitions()) == []
        assert not log.is_ready(1)
        await log.ensure_topic()
        await log.ensure_topic()
        assert (log.partition_count(), sorted(log.list_led_partitions())) == (3, [0, 1, 2])
        assert log.is_ready(1)
        assert log.get_led_since_epoch(1) >= 0
        assert log.bounds(1) == (0, 0)
        assert await values_from(log, 0) == []
        assert await result_of(log.append(1, batch(b"a", b"b"))) == 0
        assert await result_of(log.append(1, batch(b"c"))) == 2
        assert log.bounds(1) == (0, 3)
        assert log.is_committed(1, 3)
        assert not log.is_committed(1, 4)
        assert await values_from(log, 0) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert await values_from(log, 0, bytes_max=1) == [(0, b"a"), (1, b"b")]
        for bytes_max in range(1, len(batch(b"a", b"b")) + len(batch(b"c"))):
            # Wherever the bound ends the second batch, the first is there.
            assert await values_from(log, 0, bytes_max=bytes_max) == [(0, b"a"), (1, b"b")]
        assert await values_from(log, 1) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert await values_from(log, 3) == []
        assert await values_from(log, 2) == [(2, b"c")]
        assert log.bounds(0) == (0, 0)


async def test_what_a_new_leader_does_not_yet_know_to_be_committed_is_read_too(tmp_path: Path) -> None:
    """Its high watermark is old until followers have fetched, and what lies above it was acknowledged."""
    async with in_a_broker(tmp_path) as log:
        await log.ensure_topic()
        for value in (b"a", b"b", b"c"):
            await result_of(log.append(1, batch(value)))
        assert isinstance(log, ReplicatedTopicLog)
        log._partitions.get(OFFSETS_TOPIC, 1).replica.high_watermark = 1
        assert log.bounds(1) == (0, 3)
        assert log.is_committed(1, 1)
        assert not log.is_committed(1, 3)
        assert await values_from(log, 0, bytes_max=1) == [(0, b"a")]
        assert await values_from(log, 1) == [(1, b"b"), (2, b"c")]
        assert await values_from(log, 3) == []


async def test_a_directory_whose_log_was_written_anew_is_loaded(tmp_path: Path) -> None:
    """Earlier versions kept this topic short so: the live state again at the end, then a later start."""

    async def commit(broker: BrokerProcess[LocalControl], partition: int, offset: int) -> None:
        errors = await result_of(
            broker.coordinators.groups.offsets.commit(
                "g",
                member_id="",
                instance_id=None,
                generation=-1,
                version=9,
                commits=[("t", partition, OffsetAndMetadata(offset, commit_timestamp_ms=2**42))],
            )
        )
        assert errors == [None]

    broker = BrokerProcess(broker_settings(tmp_path), control=LocalControl())
    await broker.start()
    await broker.coordinators.groups.ensure_topic()
    for offset in range(20):
        await commit(broker, offset % 3, offset)
    partition = broker.coordinators.groups.runtime.shard("g").partition
    log = broker.partitions.get(OFFSETS_TOPIC, partition).log
    for number, offset in enumerate((18, 19, 17)):
        await commit(broker, number, offset)
    log.advance_log_start(20)
    await commit(broker, 0, 99)
    await broker.stop()

    broker = BrokerProcess(broker_settings(tmp_path), control=LocalControl())
    await broker.start()
    await broker.coordinators.groups.runtime.wait_until_loaded()
    found = sorted(broker.coordinators.groups.offsets.list_committed())
    start = broker.partitions.get(OFFSETS_TOPIC, partition).log.log_start_offset
    await broker.stop()
    assert (found, start) == ([("g", "t", 0, 99), ("g", "t", 1, 19), ("g", "t", 2, 17)], 20)
