"""What /metrics has about groups, from a whole broker that serves groups of both protocols."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from prometheus_client.parser import text_string_to_metric_families

from odradek.foundation.metrics import MetricsRegistry
from odradek.server.http import broker_metrics
from odradek.wire.protocol.api import ApiKey
from tests.support.exposition import exposition_text
from tests.support.whole_broker import WholeBroker

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(broker: WholeBroker) -> Samples:
    registry = MetricsRegistry()
    broker_metrics.register(broker.broker, registry)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition_text(registry))
        for sample in family.samples
    }


async def commit(broker: WholeBroker, group_id: str, offset: int) -> None:
    answer = await broker.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group_id,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": offset}]}],
    )
    assert [partition.error_code for topic in answer.topics for partition in topic.partitions] == [0]


async def consumer_group(broker: WholeBroker, group_id: str) -> None:
    answer = await broker.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=group_id,
        member_id=str(UUID(int=1)),
        member_epoch=0,
        rebalance_timeout=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert answer.error_code == 0, answer


async def ready(broker: WholeBroker) -> None:
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    await broker.broker.coordinators.groups.runtime.wait_until_loaded()


def labels(**texts: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, str(text)) for key, text in texts.items()))


async def test_groups_of_both_protocols_are_counted() -> None:
    broker = await WholeBroker.start({"offsets.topic.num.partitions": "2"})
    await broker.create_topic("t")
    await ready(broker)
    await commit(broker, "simple", 0)
    await consumer_group(broker, "modern")
    samples = scrape(broker)
    assert samples["odradek_groups", labels(protocol="classic", state="Empty")] == 1
    assert samples["odradek_groups", labels(protocol="consumer", state="Stable")] == 1
    assert samples["odradek_group_members", labels(group="modern")] == 1
    assert samples["odradek_group_members", labels(group="simple")] == 0
    assert samples["odradek_group_offset_commits_total", ()] == 1
    assert samples["odradek_group_partitions_refused", ()] == 0


async def test_lag_is_what_is_left_to_read_and_how_long_it_has_waited() -> None:
    broker = await WholeBroker.start({"offsets.topic.num.partitions": "2"})
    await broker.create_topic("t")
    await ready(broker)
    now_ms = broker.broker.clock.wall_ms()
    await broker.produce("t", b"a", b"b", timestamp_ms=now_ms - 5000)
    await broker.produce("t", b"c", timestamp_ms=now_ms - 2000)
    at = labels(group="g", topic="t", partition=0)
    for offset, lag, seconds in ((0, 3, 5), (1, 2, 5), (2, 1, 2), (3, 0, 0)):
        await commit(broker, "g", offset)
        samples = scrape(broker)
        assert samples["odradek_group_lag_messages", at] == lag
        assert samples["odradek_group_lag_seconds", at] == seconds
    await commit(broker, "g", 2)
    await asyncio.sleep(10)
    assert scrape(broker)["odradek_group_lag_seconds", at] == 12
