"""Quotas in a cluster: set through any broker, in force on all, counted by the controller where it decides."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.foundation.client_entities import ClientEntity
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_cluster import WholeCluster

EXCEEDED = 89
EVERY_CLIENT = ClientEntity(client_id="")


async def quota(cluster: WholeCluster, *, through: int, **values: float | None) -> None:
    operations = [
        {"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()
    ]
    entity = [{"entity_type": "client-id", "entity_name": None}]
    answer: Any = await cluster.ask(
        through,
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        entries=[{"entity": entity, "ops": operations}],
        validate_only=False,
    )
    assert [int(one.error_code) for one in answer.entries] == [0]


async def test_every_broker_follows_and_the_controller_counts_for_all() -> None:
    cluster = await WholeCluster.start()
    await quota(cluster, through=1, controller_mutation_rate=1.0)
    await cluster.until(
        lambda: all(EVERY_CLIENT in cluster.image(number).client_configs for number in (1, 2, 3))
    )
    assert await cluster.create_topic("large", through=1, partitions=15) == 0
    # Four partitions too many were made through another broker: this one refuses, and mutes its client.
    began = asyncio.get_running_loop().time()
    assert await cluster.create_topic("small", through=2, partitions=1) == EXCEEDED
    assert await cluster.create_topic("small", through=2, partitions=1) == 0
    assert 3.5 <= asyncio.get_running_loop().time() - began <= 5.0


async def test_quotas_outlive_their_controller_and_end_when_they_are_removed() -> None:
    cluster = await WholeCluster.start()
    await quota(cluster, through=2, producer_byte_rate=1_000.0)
    (active,) = [number for number, one in cluster.controllers.items() if one.is_active]
    cluster.kill_controller(active)
    await cluster.until(lambda: cluster.active is not None)
    found = await cluster.ask(3, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
    assert [(one.key, one.value) for one in found.entries[0].values] == [("producer_byte_rate", 1_000.0)]
    assert await cluster.create_topic("t", through=1, partitions=1) == 0
    (leader,) = cluster.leaders("t", seen_by=1)
    answer = await cluster.produce(leader, "t", 0, b"x" * 100_000)
    assert int(answer.error_code) == 0
    began = asyncio.get_running_loop().time()
    other = 1 if leader != 1 else 2
    await quota(cluster, through=other, producer_byte_rate=None)
    # A wait of ninety seconds ends with its quota.
    assert int((await cluster.produce(leader, "t", 0, b"x" * 100_000)).error_code) == 0
    assert asyncio.get_running_loop().time() - began < 5.0
    assert cluster.brokers[leader].parts.fetch.throttling is None
