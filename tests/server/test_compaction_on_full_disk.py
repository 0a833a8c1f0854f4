"""A full disk under compaction: the log is tried again after a pause, and compacted once there is room."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from odradek.broker.replication.cleaner import LogCleaner
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from tests.support.logs import START_MS
from tests.support.whole_broker import WholeBroker

KEY: Final = TopicPartition("compacted", 0)
BACKOFF_MS: Final = 1_000
FULL_SECONDS: Final = 20.0


async def _produce(broker: WholeBroker, number: int) -> None:
    records = build_batch([(START_MS + number, b"key", b"value %d" % number)])
    answer = await broker.ask(
        ApiKey.PRODUCE,
        9,
        acks=1,
        timeout=1000,
        topic_data=[{"name": KEY.topic, "partition_data": [{"index": 0, "records": bytes(records)}]}],
    )
    assert int(answer.responses[0].partition_responses[0].error_code) == 0


# Without room for a byte the roll is refused, with room for a new segment's files the round is.
@pytest.mark.parametrize("room_bytes", [0, 20])
async def test_it_is_tried_again_and_not_given_up(room_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = 0
    failed = LogCleaner._mark_failed

    def count(self: LogCleaner, log: object, failure: Exception) -> None:
        nonlocal failures
        failures += 1
        failed(self, log, failure)  # type: ignore[arg-type]

    monkeypatch.setattr(LogCleaner, "_mark_failed", count)
    broker = await WholeBroker.start({"log.cleaner.backoff.ms": str(BACKOFF_MS)})
    await broker.create_topic(
        KEY.topic,
        cleanup_policy="compact",
        max_compaction_lag_ms="2000",
        min_cleanable_dirty_ratio="0.01",
    )
    for number in range(5):
        await _produce(broker, number)
    broker.disk.capacity_bytes = broker.disk.used_bytes + room_bytes
    await asyncio.sleep(FULL_SECONDS)
    log = broker.broker.partitions.get(*KEY).log
    assert failures > 0
    assert failures <= 2 * FULL_SECONDS * 1000 / BACKOFF_MS
    assert broker.broker.cleaner.uncleanable == {}
    assert log.offsets.cleaned_offset < 0
    broker.disk.capacity_bytes = None
    # Pauses double, so the next one is about as long as the failures lasted.
    await asyncio.sleep(2 * FULL_SECONDS)
    assert log.offsets.cleaned_offset == log.log_end_offset == 5
