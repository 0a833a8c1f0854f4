"""What /metrics of a broker in a cluster has about its replicas and about its followers."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from odradek.foundation.metrics import MetricsRegistry
from odradek.server.http import cluster_metrics
from tests.support.exposition import exposition_text
from tests.support.whole_cluster import ClusterBroker, WholeCluster


def _scrape(broker: ClusterBroker) -> dict[str, float]:
    """By name, and by name and label where there is one."""
    registry = MetricsRegistry()
    cluster_metrics.register_broker(broker, registry)
    return {
        " ".join([sample.name.removeprefix("odradek_"), *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(exposition_text(registry))
        for sample in family.samples
    }


async def test_replicas_and_followers_are_told() -> None:
    cluster = await WholeCluster.start(
        entries={"replica.lag.time.max.ms": "2000", "min.insync.replicas": "3"}
    )
    assert await cluster.create_topic("t", partitions=3, replicas=3) == 0
    leaders = cluster.leaders("t", seen_by=1)
    partition = leaders.index(1)
    assert int((await cluster.produce(1, "t", partition, b"one", acks=-1)).error_code) == 0
    await asyncio.sleep(1)
    found = _scrape(cluster.brokers[1])
    assert found["partitions_led"] == 1 and found["partitions_below_min_in_sync"] == 0
    assert found["replica_lag_records 2"] == found["replica_lag_records 3"] == 0
    assert found["replica_fetches_total 2"] > 0 and found["replica_bytes_in_total 2"] == 0
    follower = _scrape(cluster.brokers[2])
    assert (
        follower["replica_bytes_in_total 1"]
        == cluster.brokers[1].partitions.get("t", partition).replica.bytes_in
    )
    await cluster.kill_broker(3)
    await cluster.until(lambda: _scrape(cluster.brokers[1])["partitions_below_min_in_sync"] > 0)
    assert int((await cluster.produce(1, "t", partition, b"two", b"three", acks=1)).error_code) == 0
    await asyncio.sleep(1)
    found = _scrape(cluster.brokers[1])
    assert found["replica_lag_records 2"] == 0 and found["replica_lag_records 3"] == 2
    await cluster.start_broker(3)
    await cluster.until(lambda: _scrape(cluster.brokers[1])["partitions_below_min_in_sync"] == 0)
    found = _scrape(cluster.brokers[1])
    assert found["in_sync_expansions_total"] >= 1 and found["replica_lag_records 3"] == 0
