"""A broker that was added to a Cluster is given its share, by requests to real brokers in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from odradek.client.client import Client
from odradek_operator.gateways.cluster_admin import Filling, HttpClusterAdmin
from tests.support.whole_cluster import PORT, WholeCluster


async def test_a_new_broker_is_filled_until_nothing_is_left_to_move() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1)
    assert await cluster.create_topic("t", assignment=[[1, 2], [2, 1]] * 6) == 0
    await cluster.start_broker(3)
    await cluster.until(lambda: 3 in cluster.image(1).brokers)

    class Clients:
        @asynccontextmanager
        async def connect_client(self, bootstrap: str) -> AsyncIterator[Client]:
            async with Client(
                bootstrap, network=cluster.network.at("operator"), random=cluster.chance
            ) as client:
                yield client

    admin, bootstrap = HttpClusterAdmin(cast(Any, Clients())), f"{cluster.host(1)}:{PORT}"
    assert (await admin.fill_brokers(bootstrap, [3], bytes_per_second=None)).begun >= 8
    await cluster.until(
        lambda: not any(one.adding or one.removing for one in cluster.image(1).topics["t"].partitions)
    )
    assert await admin.count_arriving(bootstrap, [3]) == 0
    assert await admin.fill_brokers(bootstrap, [3], bytes_per_second=None) == Filling(begun=0)
    placed = cluster.replicas("t", seen_by=1)
    assert [sum(broker in one for one in placed) for broker in (1, 2, 3)] == [8, 8, 8]
    assert [sum(broker == one[0] for one in placed) for broker in (1, 2, 3)] == [4, 4, 4]
