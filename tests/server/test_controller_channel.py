"""A broker's way to the active controller, as that moves."""

from __future__ import annotations

import asyncio

from tests.support.whole_cluster import WholeCluster


async def test_a_silent_controller_is_left_as_soon_as_another_is_elected() -> None:
    cluster = await WholeCluster.start(brokers=1)
    first = cluster.active
    assert first is not None
    subscription = cluster.brokers[1].control.subscription
    # The broker has given its connection up and tries to make another when the next one is elected.
    cluster.network.part(cluster.host(1), cluster.host(first.id))
    cluster.network.reset(cluster.host(1))
    await asyncio.sleep(1)
    cluster.stores[cluster.host(first.id)].sever()
    await cluster.until(lambda: cluster.active is not None and cluster.active is not first)
    active = cluster.active
    assert active is not None and active.active_controller is not None
    term = active.active_controller.term.epoch
    await cluster.until(lambda: subscription.controller_epoch == term, seconds_max=1)
    cluster.network.heal()
    await cluster.stop()
