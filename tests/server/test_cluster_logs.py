"""In a cluster a change is logged once, with the client that asked, and one broker warns of a topic's policy."""

from __future__ import annotations

import logging

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.whole_cluster import WholeCluster


async def test_a_change_through_any_broker_is_told_once_and_with_its_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    cluster = await WholeCluster.start(entries={"log.cleaner.enable": "false"})
    assert await cluster.create_topic("t", through=2) == 0
    change = {"name": "cleanup.policy", "config_operation": 0, "value": "compact"}
    (answer,) = (
        await cluster.ask(
            3,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[{"resource_type": 2, "resource_name": "t", "configs": [change]}],
            validate_only=False,
        )
    ).responses
    assert (answer.error_code, answer.error_message.partition(":")[0]) == (0, "cleanup.policy=compact")
    await cluster.until(lambda: all(cluster.image(number).configs for number in (1, 2, 3)))
    await cluster.stop()
    told = [record for record in caplog.records if record.name == "odradek.broker.requests.change_log"]
    words = [record.getMessage() for record in told]
    assert words == [
        "topic t was made for client 'test' at client: partitions=3, replicas=1",
        "settings of topic t were changed for client 'test' at client: cleanup.policy set to compact",
    ]
    warnings = [
        record.getMessage() for record in caplog.records if "log.cleaner.enable=false" in record.getMessage()
    ]
    assert len(warnings) == 1
    assert warnings[0].startswith("topic t: cleanup.policy=compact")
