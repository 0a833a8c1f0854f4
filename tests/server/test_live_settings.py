"""Settings changed through the controller reach the parts of a running broker, and are in force after a restart."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.local_control import LocalControl
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, NewTopic, Resource
from odradek.metadata.image.image import ResourceKind

ALL_BROKERS = Resource(ResourceKind.BROKER, "")
TOPIC = Resource(ResourceKind.TOPIC, "t")


async def _set(
    broker: BrokerProcess[LocalControl], resource: Resource, changes: Sequence[tuple[str, str]]
) -> None:
    wanted = [AlterConfigOp(key, ConfigOperation.SET, value) for key, value in changes]
    outcomes = await broker.controller.incremental_alter_configs([(resource, wanted)])
    assert outcomes == [None]


def _in_force(broker: BrokerProcess[LocalControl]) -> dict[str, object]:
    log = broker.partitions.get("t", 0).log
    return {
        "max.connections": broker.admission.connections_max,
        "max.connections.per.ip": broker.admission.connections_per_ip_max,
        "overrides": broker.admission.per_ip_overrides,
        "producer.id.expiration.ms": log.producers.rules.expiration_ms,
        "max.message.bytes": log.config.max_message_bytes,
        "retention.ms": log.config.retention_ms,
        "min.insync.replicas": broker.partitions.get("t", 0).replica.min_insync_replicas,
    }


@pytest.mark.integration
def test_changes_reach_the_running_parts_and_outlive_a_restart(tmp_path: Path) -> None:
    settings = Settings({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    wanted = {
        "max.connections": 11,
        "max.connections.per.ip": 7,
        "overrides": {"10.0.0.1": 3},
        "producer.id.expiration.ms": 1234,
        "max.message.bytes": 4321,
        "retention.ms": 99,
        "min.insync.replicas": 2,
    }

    async def change() -> None:
        broker = BrokerProcess(settings, control=LocalControl())
        await broker.start()
        try:
            await broker.control.controller.create_topics([NewTopic(name="t")])
            before = _in_force(broker)
            assert before["max.message.bytes"] == 1048588
            await _set(
                broker,
                ALL_BROKERS,
                [
                    ("max.connections", "11"),
                    ("max.connections.per.ip", "7"),
                    ("max.connections.per.ip.overrides", "10.0.0.1:3"),
                    ("producer.id.expiration.ms", "1234"),
                    ("message.max.bytes", "4321"),
                    ("log.retention.ms", "77"),
                    ("min.insync.replicas", "2"),
                ],
            )
            await _set(broker, TOPIC, [("retention.ms", "99")])
            assert _in_force(broker) == wanted
        finally:
            await broker.stop()

    async def look_again() -> None:
        broker = BrokerProcess(settings, control=LocalControl())
        await broker.start()
        try:
            assert _in_force(broker) == wanted
        finally:
            await broker.stop()

    asyncio.run(change())
    asyncio.run(look_again())
