"""Connections that come too fast wait or are refused, on every broker, by settings and by quotas of addresses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.foundation import metrics
from odradek.network.outbound import OutboundConnection
from odradek.server.http.broker_metrics import quota_samples
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_cluster import PORT, ClusterBroker, WholeCluster

ADDRESS = "10.0.0.5"


async def connected(cluster: WholeCluster, address: str, *, count: int) -> list[float]:
    """Connect so often, one after the other, and answer. Returns the seconds that each took."""
    taken = []
    for _ in range(count):
        began = asyncio.get_running_loop().time()
        connection = await OutboundConnection.connect(
            cluster.network.at(address), host=cluster.host(1), port=PORT, client_id="c"
        )
        taken.append(asyncio.get_running_loop().time() - began)
        await connection.close()
    return taken


async def rate_of_address(cluster: WholeCluster, address: str | None, rate: float | None) -> None:
    answer: Any = await cluster.ask(
        1,
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        entries=[
            {
                "entity": [{"entity_type": "ip", "entity_name": address}],
                "ops": [{"key": "connection_creation_rate", "value": rate or 0.0, "remove": rate is None}],
            }
        ],
        validate_only=False,
    )
    assert [int(one.error_code) for one in answer.entries] == [0], answer


def values(broker: ClusterBroker) -> dict[tuple[str, ...], float]:
    return {
        (sample.metric.name, *sample.labels): float(sample.value)
        for sample in quota_samples(broker)
        if isinstance(sample.value, int | float) and sample.value
    }


async def test_the_rate_of_a_broker_makes_connections_wait_and_can_be_changed() -> None:
    cluster = await WholeCluster.start(brokers=1, entries={"max.connection.creation.rate": "2"})
    taken = await connected(cluster, ADDRESS, count=24)
    # Ten seconds' worth come at once, and all but a few at the rate.
    assert max(taken[:19]) < 0.1
    assert sum(taken) >= 1.5
    assert max(taken) <= 1.1
    found = values(cluster.brokers[1])
    assert found[metrics.ACCEPT_THROTTLES.name, "PLAINTEXT"] >= 2
    assert found[metrics.ACCEPT_THROTTLE_SECONDS.name, "PLAINTEXT"] == pytest.approx(sum(taken), abs=0.2)
    change = {"name": "max.connection.creation.rate", "config_operation": 0, "value": "1000"}
    answer = await cluster.ask(
        1,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[{"resource_type": 4, "resource_name": "", "configs": [change]}],
        validate_only=False,
    )
    assert int(answer.responses[0].error_code) == 0, answer
    await asyncio.sleep(1)
    assert max(await connected(cluster, ADDRESS, count=100)) < 0.1


async def test_a_listener_has_a_rate_of_its_own() -> None:
    entries = {"listener.name.plaintext.max.connection.creation.rate": "1"}
    cluster = await WholeCluster.start(brokers=1, entries=entries)
    assert max(await connected(cluster, ADDRESS, count=15)) == pytest.approx(1.0, abs=0.05)


async def test_an_address_above_its_quota_is_refused_until_the_quota_ends() -> None:
    cluster = await WholeCluster.start(brokers=2)
    assert values(cluster.brokers[1]) == {}
    await rate_of_address(cluster, None, 2.0)
    await rate_of_address(cluster, "10.0.0.9", 1000.0)
    await asyncio.sleep(1)
    await connected(cluster, ADDRESS, count=20)
    began = asyncio.get_running_loop().time()
    with pytest.raises(ConnectionResetError):
        await connected(cluster, ADDRESS, count=1)
    held_seconds = asyncio.get_running_loop().time() - began
    assert 0.1 < held_seconds <= 1.1
    # Others are let in at the same time, and at their own rate.
    assert max(await connected(cluster, "10.0.0.9", count=30)) < 0.1
    found = values(cluster.brokers[1])
    assert found == {
        (metrics.QUOTA_THROTTLES.name, "connection_creation_rate"): 1,
        (metrics.QUOTA_THROTTLE_SECONDS.name, "connection_creation_rate"): pytest.approx(
            held_seconds, abs=0.01
        ),
        (metrics.QUOTA_IP_THROTTLE_SECONDS.name, ADDRESS): pytest.approx(held_seconds, abs=0.01),
    }
    await rate_of_address(cluster, None, None)
    await asyncio.sleep(1)
    await connected(cluster, ADDRESS, count=1)
    await rate_of_address(cluster, "10.0.0.9", None)
    await asyncio.sleep(1)
    found_rates = cluster.brokers[1].connection_watch.rates
    assert found_rates is not None
    assert not found_rates.is_on
    assert all(listener.arrive is None for listener in cluster.brokers[1].listeners)
