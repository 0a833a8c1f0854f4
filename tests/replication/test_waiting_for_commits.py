"""Whoever waits for replicas to take a record is told when they do not."""

from __future__ import annotations

import pytest

from odradek.foundation.errors import RequestTimedOut
from tests.support.loop import run
from tests.support.whole_cluster import WholeCluster


def test_a_record_that_a_member_of_the_set_does_not_take_is_waited_for_no_longer_than_asked() -> None:
    async def story() -> None:
        cluster = await WholeCluster.start(brokers=2, controllers=1)
        assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
        (leader,) = cluster.leaders("t", seen_by=1)
        partition = cluster.brokers[leader].partitions.get("t", 0)
        await cluster.until(lambda: len(partition.in_sync_replicas) == 2)
        cluster.network.part(cluster.host(1), cluster.host(2))
        assert (await cluster.produce(leader, "t", 0, b"x", acks=1)).error_code == 0
        with pytest.raises(RequestTimedOut, match="within 2 s"):
            await partition.committed(0, seconds_max=2)
        assert not partition.unacknowledged
        cluster.network.heal()
        await partition.committed(0, seconds_max=60)
        await cluster.stop()

    run(story())
