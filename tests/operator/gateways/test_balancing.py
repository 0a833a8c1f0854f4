"""A rebalance by requests to real brokers in this process: planned, begun, counted, stopped and ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from odradek.client.client import Client
from odradek_operator.gateways.balancing import BalancingMoves
from odradek_operator.gateways.cluster_admin import HttpClusterAdmin
from tests.support.whole_cluster import PORT, WholeCluster


async def test_brokers_are_levelled_and_a_stop_takes_back_what_has_not_arrived() -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", assignment=[[1], [1]] * 6) == 0

    class Clients:
        @asynccontextmanager
        async def connect_client(self, bootstrap: str) -> AsyncIterator[Client]:
            async with Client(
                bootstrap, network=cluster.network.at("operator"), random=cluster.chance
            ) as client:
                yield client

    for partition in range(12):
        await cluster.produce(1, "t", partition, b"x" * 20_000)
    admin, bootstrap = HttpClusterAdmin(cast(Any, Clients())), f"{cluster.host(1)}:{PORT}"
    planned = await admin.plan_balance(bootstrap, tolerance=0.05)
    assert len(planned.plan.moves) == 8
    assert all(planned.load.partitions[where].replicas == (1,) for where in planned.plan.moves)
    await admin.begin_balancing(bootstrap, planned.plan.moves, bytes_per_second=1)
    under_way = await admin.count_balancing(bootstrap)
    assert under_way.partitions > 0 and under_way.bytes_left > 100_000
    assert await admin.stop_balancing(bootstrap) == under_way.partitions
    assert await admin.count_balancing(bootstrap) == BalancingMoves()
    # Without the throttle the rest arrives.
    planned = await admin.plan_balance(bootstrap, tolerance=0.05)
    assert 0 < len(planned.plan.moves) <= 8
    await admin.begin_balancing(bootstrap, planned.plan.moves, bytes_per_second=None)
    await cluster.until(
        lambda: not any(one.adding or one.removing for one in cluster.image(1).topics["t"].partitions)
    )
    assert await admin.count_balancing(bootstrap) == BalancingMoves()
    placed = cluster.replicas("t", seen_by=1)
    assert [sum(broker in one for one in placed) for broker in (1, 2, 3)] == [4, 4, 4]
    after = await admin.plan_balance(bootstrap, tolerance=0.05)
    assert after.plan.is_empty
    await admin.end_balancing(bootstrap, [next(iter(planned.plan.moves))])
