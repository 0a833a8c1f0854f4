"""A partition without a leader gets one as soon as unclean elections are allowed for it."""

from __future__ import annotations

import pytest

from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.metadata.image.image import NO_LEADER
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_cluster import WholeCluster


@pytest.mark.parametrize(("kind", "name"), [(ConfigResourceType.TOPIC, "t"), (ConfigResourceType.BROKER, "")])
async def test_whoever_allows_it_need_not_wait_for_a_broker_to_come_or_go(
    kind: ConfigResourceType, name: str
) -> None:
    cluster = await WholeCluster.start(brokers=3)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    first, second = cluster.image(1).topics["t"].partitions[0].replicas
    (third,) = {1, 2, 3} - {first, second}
    await cluster.kill_broker(second)
    await cluster.until(lambda: cluster.image(first).topics["t"].partitions[0].isr == (first,))
    await cluster.kill_broker(first)
    await cluster.start_broker(second)
    await cluster.until(lambda: {second, third} <= cluster.image(third).brokers.keys())
    assert cluster.leaders("t", seen_by=third) == [NO_LEADER]
    answer = await cluster.ask(
        third,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": int(kind),
                "resource_name": name,
                "configs": [
                    {"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}
                ],
            }
        ],
        validate_only=False,
    )
    assert int(answer.responses[0].error_code) == 0, answer
    await cluster.until(lambda: cluster.leaders("t", seen_by=third) == [second], seconds_max=1)
