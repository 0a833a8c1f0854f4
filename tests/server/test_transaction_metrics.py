"""What /metrics has of open transactions: how far readers of committed records are behind, and since when."""

from __future__ import annotations

import asyncio

from odradek.wire.protocol.api import ApiKey
from tests.server.test_broker_metrics import labels, scrape
from tests.support.transactional_producer import TransactionalProducer
from tests.support.whole_broker import WholeBroker


async def test_an_open_transaction_shows_its_age_and_what_it_holds_back() -> None:
    broker = await WholeBroker.start({"transaction.max.timeout.ms": "3600000"})
    await broker.create_topic("t", partitions=2)
    producer = await TransactionalProducer(broker).begin()
    now_ms = broker.broker.clock.wall_ms()
    for value in (b"a", b"b"):
        assert await producer.produce("t", value, timestamp_ms=now_ms) == 0
    partition = labels(topic="t", partition=0)
    oldest = "odradek_oldest_transaction_seconds", labels(topic="t", partition=0, producer_id=0)
    samples = scrape(broker)
    assert samples["odradek_last_stable_offset_lag", partition] == 2
    assert samples["odradek_last_stable_offset_lag", labels(topic="t", partition=1)] == 0
    assert samples["odradek_open_transactions", ()] == 1
    assert samples["odradek_partitions_with_late_transactions", ()] == 0
    assert samples["odradek_transaction_verifications_total", ()] == 1
    assert samples[oldest] < 60
    broker.broker.partitions.get("t", 0).log.producers.transactions.restore(
        [
            one._replace(started_ms=now_ms - 4_000_000)
            for one in broker.broker.partitions.get("t", 0).log.producers.transactions
        ]
    )
    samples = scrape(broker)
    assert samples[oldest] >= 4000
    assert samples["odradek_partitions_with_late_transactions", ()] == 1
    assert await producer.end(commit=True) == 0
    await asyncio.sleep(1)
    samples = scrape(broker)
    assert oldest not in samples
    assert samples["odradek_last_stable_offset_lag", partition] == 0
    assert samples["odradek_open_transactions", ()] == 0


async def test_a_transaction_that_hangs_shows_until_it_is_aborted() -> None:
    broker = await WholeBroker.start({"transaction.partition.verification.enable": "false"})
    await broker.create_topic("t")
    producer = TransactionalProducer(broker, version=1)
    producer.producer_id, producer.epoch = 4711, 3
    hour_ago_ms = broker.broker.clock.wall_ms() - 3_600_000
    assert await producer.produce("t", b"hanging", timestamp_ms=hour_ago_ms) == 0
    await broker.produce("t", b"behind")
    # No coordinator has it, so no timeout ends it.
    await asyncio.sleep(3600)
    partition = labels(topic="t", partition=0)
    oldest = "odradek_oldest_transaction_seconds", labels(topic="t", partition=0, producer_id=4711)
    samples = scrape(broker)
    assert samples["odradek_last_stable_offset_lag", partition] == 2
    assert samples["odradek_partitions_with_late_transactions", ()] == 1
    assert samples[oldest] >= 7200
    marker = {
        "producer_id": 4711,
        "producer_epoch": 3,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": [0]}],
    }
    answer = await broker.ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code == 0
    samples = scrape(broker)
    assert samples["odradek_last_stable_offset_lag", partition] == 0
    assert samples["odradek_partitions_with_late_transactions", ()] == 0
    assert oldest not in samples
