"""A broker of a cluster does not become a member with a log directory that it could not open."""

from __future__ import annotations

import errno

import pytest

from odradek.foundation.errors import KafkaStorageError
from tests.support.whole_cluster import WholeCluster


async def test_it_does_not_start_and_does_once_the_disk_is_mended() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1)
    assert await cluster.create_topic("t", partitions=2, replicas=2) == 0
    await cluster.produce(1, "t", 0, b"a")
    await cluster.kill_broker(2)
    cluster.disks[2].fail_path("/logs/t-0", errno.EIO)
    with pytest.raises(KafkaStorageError, match=r"/logs \(Input.* repair the disk\); then start"):
        await cluster.start_broker(2)
    cluster.disks[2].failing_paths.clear()
    cluster.disks[2].kill()
    await cluster.start_broker(2)
    await cluster.until(lambda: all(len(one.isr) == 2 for one in cluster.image(1).topics["t"].partitions))
