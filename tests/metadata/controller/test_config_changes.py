"""Settings change while the broker runs, by Kafka's rules, and every subscriber is notified."""

import pytest

from odradek.foundation.errors import InvalidConfig, InvalidRequest, RequestError, UnknownTopicOrPartition
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, NewTopic, Resource
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.configs import log_config_values
from odradek.metadata.image.image import ResourceKind
from tests.support.lone_controller import LoneController
from tests.support.memory_registry import MemoryRegistry, MemoryStore

TOPIC = Resource(ResourceKind.TOPIC, "t")
GROUP = Resource(ResourceKind.GROUP, "a/b%")
METRICS = Resource(ResourceKind.CLIENT_METRICS, "m")
BROKER = Resource(ResourceKind.BROKER, "1")
ALL_BROKERS = Resource(ResourceKind.BROKER, "")
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


async def test_single_settings_are_set_taken_back_and_edited_as_lists() -> None:
    broker = await LoneController.start()
    await broker.controller.create_topics([NewTopic(name="t", config={"retention.ms": "5"})])

    async def change(*changes: AlterConfigOp, validate_only: bool = False) -> dict[str, str]:
        outcomes = await broker.controller.incremental_alter_configs(
            [(TOPIC, changes)], validate_only=validate_only
        )
        assert outcomes == [None]
        return dict(broker.images.current.config(ResourceKind.TOPIC, "t"))

    assert await change(AlterConfigOp("segment.ms", SET, "7")) == {"retention.ms": "5", "segment.ms": "7"}
    unchanged = await change(AlterConfigOp("segment.ms", SET, "8"), validate_only=True)
    assert unchanged == {"retention.ms": "5", "segment.ms": "7"}
    assert await change(AlterConfigOp("retention.ms", DELETE, None)) == {"segment.ms": "7"}
    assert await change(AlterConfigOp("segment.ms", DELETE, None)) == {}
    # The default is the list that is added to.
    appended = await change(AlterConfigOp("cleanup.policy", APPEND, "compact"))
    assert appended == {"cleanup.policy": "delete,compact"}
    assert await change(AlterConfigOp("cleanup.policy", APPEND, "compact")) == appended
    assert await change(AlterConfigOp("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": "compact"}


REFUSED: list[tuple[Resource, list[AlterConfigOp], type[RequestError], str]] = [
    (Resource(ResourceKind.TOPIC, "x"), [], UnknownTopicOrPartition, "x"),
    (TOPIC, [AlterConfigOp("nope", SET, "1")], InvalidConfig, "Unknown topic config name: nope"),
    (TOPIC, [AlterConfigOp("retention.ms", SET, "x")], InvalidConfig, "retention.ms"),
    (TOPIC, [AlterConfigOp("retention.ms", SET, None)], InvalidRequest, "Null value"),
    (TOPIC, [AlterConfigOp("retention.ms", APPEND, "1")], InvalidConfig, "not LIST"),
    (TOPIC, [AlterConfigOp("cleanup.policy", APPEND, "shrink")], InvalidConfig, "compact, delete"),
    (
        TOPIC,
        [AlterConfigOp("segment.ms", SET, "1"), AlterConfigOp("segment.ms", DELETE, None)],
        InvalidRequest,
        "duplicate",
    ),
    (BROKER, [AlterConfigOp("node.id", SET, "2")], InvalidRequest, r"dynamically: Set\(node.id\)"),
    (BROKER, [AlterConfigOp("log.segment.byte", SET, "2")], InvalidRequest, "did you mean log.segment.bytes"),
    (BROKER, [AlterConfigOp("log.segment.bytes", SET, "2")], InvalidRequest, "at least 1048576"),
    (BROKER, [AlterConfigOp("log.retention.ms", SET, "0")], InvalidRequest, "at least 1"),
    (Resource(ResourceKind.BROKER, "2"), [], InvalidRequest, r"expected one of \[1\]"),
    (
        ALL_BROKERS,
        [AlterConfigOp("cordoned.log.dirs", SET, "*")],
        InvalidRequest,
        "default cluster level",
    ),
    (
        BROKER,
        [AlterConfigOp("ssl.client.auth", SET, "required")],
        InvalidRequest,
        r"ssl.client.auth=required \(clients show a certificate: set none or remove it\) promises protection",
    ),
    (
        BROKER,
        [AlterConfigOp("listener.name.x.scram-sha-256.sasl.jaas.config", SET, "secret")],
        InvalidRequest,
        r"sasl.jaas.config=\[hidden\] .* promises protection",
    ),
    (ALL_BROKERS, [AlterConfigOp("super.users", SET, "User:a")], InvalidRequest, "Cannot update"),
    (BROKER, [AlterConfigOp("authorizer.class.name", SET, "a.B")], InvalidRequest, "Cannot update"),
    (Resource(ResourceKind.GROUP, ""), [], InvalidRequest, "name a group"),
    (GROUP, [AlterConfigOp("nope", SET, "1")], InvalidConfig, "Unknown group config name"),
    (GROUP, [AlterConfigOp("consumer.session.timeout.ms", SET, "1")], InvalidConfig, "min.session"),
    (GROUP, [AlterConfigOp("consumer.heartbeat.interval.ms", SET, "99999")], InvalidConfig, "max.heartbeat"),
    (Resource(ResourceKind.CLIENT_METRICS, ""), [], InvalidRequest, "name a subscription"),
    (METRICS, [AlterConfigOp("metric", SET, "1")], InvalidRequest, "did you mean metrics"),
    (METRICS, [AlterConfigOp("interval.ms", SET, "99")], InvalidRequest, "between 100 and 3600000"),
    (METRICS, [AlterConfigOp("interval.ms", SET, "often")], InvalidConfig, "interval.ms"),
    (METRICS, [AlterConfigOp("metrics", ConfigOperation.APPEND, "a")], InvalidConfig, "not LIST"),
    (METRICS, [AlterConfigOp("match", SET, "client=a")], InvalidConfig, "one of client_id,"),
    (METRICS, [AlterConfigOp("match", SET, "client_id=[")], InvalidConfig, "no RE2 expression"),
    (METRICS, [AlterConfigOp("match", SET, "client_id=" + "a" * 20_000)], InvalidConfig, "more than"),
]


@pytest.mark.parametrize(("resource", "changes", "error", "words"), REFUSED)
async def test_what_may_not_be_is_refused(
    resource: Resource, changes: list[AlterConfigOp], error: type[RequestError], words: str
) -> None:
    broker = await LoneController.start()
    await broker.controller.create_topics([NewTopic(name="t")])
    before = broker.images.current
    refused, done = await broker.controller.incremental_alter_configs([(resource, changes), (TOPIC, [])])
    with pytest.raises(error, match=words):
        raise refused or AssertionError("not refused")
    assert type(refused) is error
    assert done is None
    assert broker.images.current is before


async def test_replacing_all_settings_drops_those_not_named() -> None:
    broker = await LoneController.start()
    await broker.controller.create_topics([NewTopic(name="t", config={"retention.ms": "5"})])
    outcomes = await broker.controller.alter_configs(
        [(TOPIC, {"segment.ms": "7"}), (TOPIC, {"segment.ms": None}), (TOPIC, {"nope": "1"})]
    )
    assert outcomes[0] is None
    assert isinstance(outcomes[1], InvalidRequest)
    assert isinstance(outcomes[2], InvalidConfig)
    assert broker.images.current.config(ResourceKind.TOPIC, "t") == {"segment.ms": "7"}


async def test_dynamic_broker_settings_take_effect_at_once_and_after_a_restart() -> None:
    registry = MemoryRegistry()
    broker = await LoneController.start({"log.retention.hours": "1"}, store=MemoryStore(registry))
    notified: list[tuple[int, int]] = []

    def follow(old: Settings, new: Settings) -> None:
        notified.append((old.effective_retention_ms, new.effective_retention_ms))

    unsubscribe = broker.dynamic.subscribe(follow)

    async def change(resource: Resource, operation: ConfigOperation, value: str | None) -> int:
        outcomes = await broker.controller.incremental_alter_configs(
            [(resource, [AlterConfigOp("log.retention.ms", operation, value)])]
        )
        assert outcomes == [None]
        kept_ms: int = log_config_values({}, settings=broker.dynamic.current)["retention_ms"]
        return kept_ms

    assert await change(ALL_BROKERS, SET, "1000") == 1000
    assert await change(BROKER, SET, "2000") == 2000
    assert await change(ALL_BROKERS, SET, "3000") == 2000, "the broker's own wins"
    await broker.store.close()

    again = await LoneController.start({"log.retention.hours": "1"}, store=MemoryStore(registry))
    assert again.dynamic.current.effective_retention_ms == 2000
    broker = again
    assert await change(BROKER, DELETE, None) == 3000
    assert await change(ALL_BROKERS, DELETE, None) == 3_600_000
    assert notified == [(3_600_000, 1000), (1000, 2000)]
    unsubscribe()


async def test_a_start_ignores_dynamic_settings_that_no_longer_fit() -> None:
    registry = MemoryRegistry()
    broker = await LoneController.start(store=MemoryStore(registry))
    change = AlterConfigOp("log.cleaner.min.compaction.lag.ms", SET, "50")
    assert await broker.controller.incremental_alter_configs([(BROKER, [change])]) == [None]
    await broker.store.close()
    static = {"log.cleaner.max.compaction.lag.ms": "10"}
    again = await LoneController.start(static, store=MemoryStore(registry))
    assert again.dynamic.current == again.settings


async def test_groups_of_any_name_keep_their_settings() -> None:
    registry = MemoryRegistry()
    broker = await LoneController.start(store=MemoryStore(registry))
    change = AlterConfigOp("consumer.session.timeout.ms", SET, "50000")
    assert await broker.controller.incremental_alter_configs([(GROUP, [change])]) == [None]
    await broker.store.close()
    again = await LoneController.start(store=MemoryStore(registry))
    assert again.images.current.config(ResourceKind.GROUP, "a/b%") == {"consumer.session.timeout.ms": "50000"}


async def test_a_follower_that_fails_does_not_keep_others_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = await LoneController.start()
    notified: list[int] = []

    def fail(old: object, new: object) -> None:
        raise RuntimeError("broken follower")

    broker.images.subscribe(fail)
    broker.images.subscribe(lambda old, new: notified.append(len(new.topics)))
    await broker.controller.create_topics([NewTopic(name="t")])
    assert notified == [1]
    assert "broken follower" in caplog.text


async def test_what_an_earlier_version_took_is_ignored_alone_and_can_be_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = MemoryRegistry()
    store = MemoryStore(registry)
    broker = await LoneController.start(store=store)
    await broker.controller.incremental_alter_configs(
        [(BROKER, [AlterConfigOp("log.retention.ms", SET, "7")])]
    )
    path = paths.config(ResourceKind.BROKER, "1")
    kept = {"log.retention.ms": "7", "ssl.client.auth": "required"}
    await store.put(path, nodes.write_config(kept))
    await store.close()

    again = await LoneController.start(store=MemoryStore(registry))
    assert again.dynamic.current.effective_retention_ms == 7
    assert "ssl.client.auth=required" in caplog.text
    assert "promises protection" in caplog.text
    for key, operation, text in (("log.retention.ms", SET, "8"), ("ssl.client.auth", DELETE, None)):
        outcomes = await again.controller.incremental_alter_configs(
            [(BROKER, [AlterConfigOp(key, operation, text)])]
        )
        assert outcomes == [None]
    assert again.images.current.config(ResourceKind.BROKER, "1") == {"log.retention.ms": "8"}
