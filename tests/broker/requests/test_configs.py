"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources over the wire."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from odradek.foundation.errors import UnsupportedVersion
from odradek.metadata.controller.requests import NewTopic
from odradek.metadata.image.image import ResourceKind
from odradek.wire.protocol.api import ApiKey
from tests.support.lone_controller import LoneController

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    logger = logging.getLogger("odradek.test.levels")
    logger.setLevel(logging.NOTSET)
    root_level = logging.getLogger().level
    yield
    logger.setLevel(logging.NOTSET)
    logging.getLogger().setLevel(root_level)


async def _broker(entries: dict[str, str] | None = None) -> LoneController:
    broker = await LoneController.start(entries)
    await broker.controller.create_topics([NewTopic(name="t", config={"retention.ms": "5"})])
    return broker


async def _describe(
    broker: LoneController, *resources: tuple[int, str, list[str] | None], version: int = 4, **fields: Any
) -> Any:
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        for kind, name, keys in resources
    ]
    answer = await broker.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=asked, **fields)
    return answer.results


async def _alter(
    broker: LoneController, *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]], **fields: Any
) -> Any:
    asked = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [
                {"name": key, "config_operation": operation, "value": value}
                for key, operation, value in changes
            ],
        }
        for kind, name, changes in resources
    ]
    fields = {"validate_only": False} | fields
    answer = await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=asked, **fields)
    return [response.error_code for response in answer.responses]


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_default_and_its_source(version: int) -> None:
    broker = await _broker({"log.segment.bytes": "2000000"})
    topic, own = await _describe(
        broker, (TOPIC, "t", None), (BROKER, "1", None), version=version, include_synonyms=True
    )
    configs = {config.name: config for config in topic.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("2000000", 4)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)
    assert [(s.name, s.value, s.source) for s in configs["segment.bytes"].synonyms] == [
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    configs = {config.name: config for config in own.configs}
    assert configs["log.segment.bytes"].config_source == 4
    assert configs["node.id"].read_only
    assert not configs["log.segment.bytes"].read_only
    assert configs["ssl.key.password"].is_sensitive
    if version >= 3:
        assert configs["log.segment.bytes"].config_type == 3
        assert configs["log.segment.bytes"].documentation is None
        (described,) = await _describe(
            broker, (TOPIC, "t", ["segment.ms"]), version=version, include_documentation=True
        )
        (config,) = described.configs
        assert config.documentation
        assert config.synonyms == ()


async def test_resources_that_are_not_there() -> None:
    broker = await _broker()
    results = await _describe(
        broker,
        (TOPIC, "x", None),
        (TOPIC, "!", None),
        (BROKER, "2", None),
        (BROKER_LOGGER, "", None),
        (GROUP, "", None),
        (CLIENT_METRICS, "", None),
        (99, "x", None),
    )
    assert [result.error_code for result in results] == [3, 17, 42, 42, 42, 42, 42]
    assert all(result.error_message and result.configs == () for result in results)


async def test_groups_client_metrics_and_the_default_of_all_brokers() -> None:
    broker = await _broker()
    assert await _alter(
        broker,
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
        (BROKER, "", [("log.retention.ms", SET, "7")]),
        (CLIENT_METRICS, "m", [("interval.ms", SET, "1000")]),
    ) == [0, 0, 0]
    group, everyone, metrics = await _describe(
        broker, (GROUP, "g", None), (BROKER, "", None), (CLIENT_METRICS, "m", None)
    )
    values = {config.name: (config.value, config.config_source) for config in group.configs}
    assert values["consumer.session.timeout.ms"] == ("50000", 8)
    assert values["consumer.heartbeat.interval.ms"] == ("5000", 5)
    assert [(config.name, config.value, config.config_source) for config in everyone.configs] == [
        ("log.retention.ms", "7", 3)
    ]
    assert [(config.name, config.value, config.config_source) for config in metrics.configs] == [
        ("interval.ms", "1000", 7),
        ("match", "", 5),
        ("metrics", "", 5),
    ]


async def test_changes_are_seen_at_once_in_both_old_and_new_ways() -> None:
    broker = await _broker()
    assert await _alter(broker, (TOPIC, "t", [("segment.ms", SET, "9")])) == [0]
    assert await _alter(broker, (TOPIC, "t", [("cleanup.policy", APPEND, "compact")])) == [0]
    assert broker.images.current.config(ResourceKind.TOPIC, "t") == {
        "retention.ms": "5",
        "segment.ms": "9",
        "cleanup.policy": "delete,compact",
    }
    assert await _alter(broker, (TOPIC, "t", [("segment.ms", SET, "8")]), validate_only=True) == [0]
    assert broker.images.current.config(ResourceKind.TOPIC, "t")["segment.ms"] == "9"
    for version in range(3):
        answer = await broker.ask(
            ApiKey.ALTER_CONFIGS,
            version,
            resources=[
                {
                    "resource_type": TOPIC,
                    "resource_name": "t",
                    "configs": [{"name": "flush.ms", "value": str(version + 1)}],
                },
                {"resource_type": TOPIC, "resource_name": "x", "configs": []},
                {"resource_type": BROKER_LOGGER, "resource_name": "1", "configs": []},
            ],
            validate_only=False,
        )
        assert [response.error_code for response in answer.responses] == [0, 3, 42]
        assert broker.images.current.config(ResourceKind.TOPIC, "t") == {"flush.ms": str(version + 1)}


async def test_refusals() -> None:
    broker = await _broker()
    assert await _alter(
        broker,
        (TOPIC, "t", [("nope", SET, "1")]),
        (BROKER, "1", [("node.id", SET, "1")]),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")]),
        (CLIENT_METRICS, "m", [("matches", SET, "")]),
        (99, "m", []),
        (BROKER, "", [("log.retention.ms", 7, "1")]),
    ) == [40, 42, 40, 42, 42, 42]
    twice = (TOPIC, "t", [("segment.ms", SET, "1")])
    assert await _alter(broker, twice, twice) == [42, 42]
    assert broker.images.current.config(ResourceKind.TOPIC, "t") == {"retention.ms": "5"}


async def test_levels_of_loggers_change_while_the_broker_runs() -> None:
    name = "odradek.test.levels"
    broker = await _broker()
    logger = logging.getLogger(name)
    assert await _alter(broker, (BROKER_LOGGER, "1", [(name, SET, "DEBUG")]), validate_only=True) == [0]
    assert logger.level == logging.NOTSET
    assert await _alter(broker, (BROKER_LOGGER, "1", [(name, SET, "DEBUG")])) == [0]
    assert logger.level == logging.DEBUG
    (answered,) = await _describe(broker, (BROKER_LOGGER, "1", [name]))
    assert [(config.name, config.value, config.config_source) for config in answered.configs] == [
        (name, "DEBUG", 6)
    ]
    assert await _alter(broker, (BROKER_LOGGER, "1", [(name, DELETE, None)])) == [0]
    assert logger.level == logging.NOTSET
    for resource, changes, code in (
        ("1", [(name, SET, "LOUD")], 40),
        ("1", [("no.such.logger", SET, "INFO")], 40),
        ("1", [(name, APPEND, "INFO")], 42),
        ("1", [("root", DELETE, None)], 42),
        ("2", [(name, SET, "INFO")], 42),
        # All or none: the second is wrong.
        ("1", [(name, SET, "ERROR"), ("root", SET, "LOUD")], 40),
    ):
        assert await _alter(broker, (BROKER_LOGGER, resource, changes)) == [code]
    assert logger.level == logging.NOTSET


async def test_resources_are_listed() -> None:
    broker = await _broker()
    await _alter(broker, (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]))
    await _alter(broker, (CLIENT_METRICS, "m", [("metrics", SET, "*")]))

    async def names(version: int, types: list[int] | None) -> list[tuple[int, str]]:
        fields: dict[str, Any] = {} if types is None else {"resource_types": types}
        answer = await broker.ask(ApiKey.LIST_CONFIG_RESOURCES, version, **fields)
        assert answer.error_code == 0
        return [
            (getattr(resource, "resource_type", CLIENT_METRICS), resource.resource_name)
            for resource in answer.config_resources
        ]

    assert await names(0, None) == [(CLIENT_METRICS, "m")]
    assert await names(1, []) == [
        (TOPIC, "t"),
        (BROKER, "1"),
        (BROKER_LOGGER, "1"),
        (CLIENT_METRICS, "m"),
        (GROUP, "g"),
    ]
    assert await names(1, [GROUP, TOPIC]) == [(GROUP, "g"), (TOPIC, "t")]
    with pytest.raises(UnsupportedVersion):
        await names(1, [77])
