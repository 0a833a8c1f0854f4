"""The log has one line for each topic made, deleted or grown, and each change of settings, with the client."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.wire.protocol.api import ApiKey
from tests.support.lone_controller import LoneController

WHO = "client 'client' at 192.0.2.7"


def _topic(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": 2,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    } | fields


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [
        record.getMessage()
        for record in caplog.records
        if record.name == "odradek.broker.requests.change_log"
    ]
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_changes_of_topics_are_logged_and_validations_are_not(caplog: pytest.LogCaptureFixture) -> None:
    broker = await LoneController.start()
    asked = [_topic("t", configs=[{"name": "retention.ms", "value": "5"}]), _topic("bad name")]
    for validate_only in (True, False):
        await broker.ask(ApiKey.CREATE_TOPICS, 7, topics=asked, timeout=1000, validate_only=validate_only)
        made = (
            [] if validate_only else [f"topic t was made for {WHO}: partitions=2, replicas=1, retention.ms=5"]
        )
        assert _lines(caplog) == made
    for validate_only in (True, False):
        await broker.ask(
            ApiKey.CREATE_PARTITIONS,
            3,
            topics=[{"name": "t", "count": 4, "assignments": None}],
            timeout=1000,
            validate_only=validate_only,
        )
        assert _lines(caplog) == ([] if validate_only else [f"topic t was grown to 4 partitions for {WHO}"])
    asked = [{"name": "t", "topic_id": None}, {"name": "u", "topic_id": None}]
    await broker.ask(ApiKey.DELETE_TOPICS, 6, topics=asked, timeout=1000)
    assert _lines(caplog) == [f"topic t was deleted for {WHO}"]


async def test_a_topic_that_metadata_created_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    broker = await LoneController.start()
    for _ in range(2):
        await broker.ask(
            ApiKey.METADATA,
            8,
            topics=[{"name": "t"}],
            allow_auto_topic_creation=True,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
    assert _lines(caplog) == [f"topic t was made for {WHO}, which asked for its metadata: partitions=1"]


async def test_changed_settings_are_logged_in_one_line_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def change(
        broker: LoneController, kind: ConfigResourceType, name: str, *configs: tuple[str, int, Any]
    ) -> None:
        resource = {
            "resource_type": int(kind),
            "resource_name": name,
            "configs": [
                {"name": key, "config_operation": operation, "value": value}
                for key, operation, value in configs
            ],
        }
        await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)

    broker = await LoneController.start()
    await broker.ask(ApiKey.CREATE_TOPICS, 7, topics=[_topic("t")], timeout=1000, validate_only=False)
    _lines(caplog)
    await change(
        broker, ConfigResourceType.TOPIC, "t", ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact"),
        ("segment.ms", 1, None),
    )  # fmt: skip
    assert _lines(caplog) == [
        f"settings of topic t were changed for {WHO}: retention.ms set to 5, "
        "cleanup.policy appended compact, segment.ms deleted"
    ]
    await change(broker, ConfigResourceType.BROKER, "", ("log.retention.ms", 0, "5"))
    assert _lines(caplog) == [f"settings of broker default were changed for {WHO}: log.retention.ms set to 5"]
    await change(broker, ConfigResourceType.TOPIC, "t", ("retention.ms", 0, "x"))
    await change(broker, ConfigResourceType.BROKER, "1", ("ssl.key.password", 0, "hunter2"))
    assert _lines(caplog) == [], "what was refused has changed nothing"
    replaced = [{"resource_type": 2, "resource_name": "t", "configs": [{"name": "segment.ms", "value": "7"}]}]
    await broker.ask(ApiKey.ALTER_CONFIGS, 2, resources=replaced, validate_only=False)
    assert _lines(caplog) == [
        f"settings of topic t were changed for {WHO}: segment.ms set to 7, all others deleted"
    ]
