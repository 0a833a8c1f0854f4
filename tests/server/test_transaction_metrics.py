"""What /metrics has of open transactions: how far readers of committed records are behind, and since when."""

from __future__ import annotations

import asyncio

from tests.server.test_broker_metrics import labels, scrape
from tests.support.loop import run
from tests.support.transactional_producer import TransactionalProducer
from tests.support.whole_broker import WholeBroker


def test_an_open_transaction_shows_its_age_and_what_it_holds_back() -> None:
    async def story() -> None:
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
        await broker.broker.stop()

    run(story())
