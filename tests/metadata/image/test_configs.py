"""What a topic's settings come to, and where they are said to come from."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from odradek.foundation.errors import InvalidConfig
from odradek.foundation.ids import TopicId
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.changes import config_changes, topic_changes
from odradek.metadata.image.config_description import (
    BrokerSources,
    DescribedConfig,
    DescribedConfigSource,
    Synonym,
    describe_broker,
    describe_broker_default,
    describe_group,
    describe_topic,
)
from odradek.metadata.image.configs import log_config_values, topic_value
from odradek.metadata.image.group_configs import GROUP_BOUNDS, validate_group_config
from odradek.metadata.image.image import ClusterImage, ResourceKind, TopicImage
from odradek.storage.config import LogConfig

NOTHING: Mapping[str, str] = MappingProxyType({})


def _sources(
    given: Mapping[str, str] = NOTHING, own: Mapping[str, str] = NOTHING, default: Mapping[str, str] = NOTHING
) -> BrokerSources:
    image = ClusterImage(
        configs={(ResourceKind.BROKER, "1"): own, (ResourceKind.BROKER, "<default>"): default}
    )
    return BrokerSources(Settings(given), image)


def _by_name(entries: list[DescribedConfig]) -> dict[str, DescribedConfig]:
    return {entry.name: entry for entry in entries}


def test_without_settings_a_log_has_the_logs_own_defaults() -> None:
    assert LogConfig(**log_config_values({}, settings=Settings())) == LogConfig()


def test_a_topics_own_value_wins_over_the_brokers() -> None:
    settings = Settings(
        {"log.retention.hours": "1", "log.segment.bytes": "2000000", "message.max.bytes": "77"}
    )
    texts = {"segment.bytes": "3000000", "cleanup.policy": "compact", "compression.type": "gzip"}
    values = log_config_values(texts | {"compression.gzip.level": "7"}, settings=settings)
    assert values["retention_ms"] == 3_600_000
    assert values["segment_bytes"] == 3_000_000
    assert values["max_message_bytes"] == 77
    assert (values["cleanup_delete"], values["cleanup_compact"]) == (False, True)
    assert (values["compression_type"], values["compression_level"]) == ("gzip", 7)
    assert log_config_values({"internal.segment.bytes": "100"}, settings=settings)["segment_bytes"] == 100
    assert log_config_values({"compression.type": "gzip"}, settings=settings)["compression_level"] is None
    assert log_config_values({"compression.type": "lz4"}, settings=settings)["compression_level"] == 9


def test_a_stored_text_that_cannot_be_read_counts_as_absent() -> None:
    assert topic_value("retention.ms", {"retention.ms": "later version"}, settings=Settings()) == 604_800_000


def test_a_topics_value_tells_all_its_sources() -> None:
    sources = _sources(
        {"log.retention.ms": "4"}, own={"log.retention.ms": "2"}, default={"log.retention.ms": "3"}
    )
    entry = _by_name(describe_topic({"retention.ms": "1"}, sources=sources))["retention.ms"]
    assert (entry.value, entry.source) == ("1", DescribedConfigSource.TOPIC)
    assert entry.synonyms == (
        Synonym("retention.ms", "1", DescribedConfigSource.TOPIC),
        Synonym("log.retention.ms", "2", DescribedConfigSource.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "3", DescribedConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.ms", "4", DescribedConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", DescribedConfigSource.DEFAULT),
    )
    entry = _by_name(describe_topic({}, sources=sources))["retention.ms"]
    assert (entry.value, entry.source) == ("2", DescribedConfigSource.DYNAMIC_BROKER)


def test_every_setting_of_a_topic_is_described() -> None:
    entries = describe_topic({}, sources=_sources())
    assert len(entries) == 33
    assert {entry.source for entry in entries} == {DescribedConfigSource.DEFAULT}
    assert all(entry.value is not None and entry.doc and not entry.is_read_only for entry in entries)
    assert _by_name(entries)["retention.ms"].value == "604800000"
    assert [entry.name for entry in describe_topic({}, sources=_sources(), keys=["segment.ms", "x"])] == [
        "segment.ms"
    ]
    assert len(describe_topic({}, sources=_sources(), keys=[])) == 33


def test_a_brokers_settings_tell_theirs() -> None:
    sources = _sources(
        {
            "log.retention.hours": "1",
            "my.plugin": "hunter2",
            "num.io.threads": "3",
        },
        own={"log.retention.bytes": "9", "ssl.client.auth": "required"},
    )
    entries = _by_name(describe_broker(sources))
    assert sources.current.log_retention_bytes == 9, "what is ignored takes nothing along"
    assert entries["log.retention.bytes"].source is DescribedConfigSource.DYNAMIC_BROKER
    assert entries["log.retention.bytes"].value == "9"
    assert not entries["log.retention.bytes"].is_read_only
    assert entries["log.retention.hours"].synonyms == (
        Synonym("log.retention.hours", "1", DescribedConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", DescribedConfigSource.DEFAULT),
    )
    assert entries["log.retention.ms"].value is None
    assert entries["log.retention.ms"].source is DescribedConfigSource.DEFAULT
    assert entries["node.id"].is_read_only
    assert entries["num.io.threads"].value == "3"
    assert entries["ssl.key.password"].value is None
    assert entries["ssl.key.password"].is_sensitive
    assert entries["my.plugin"].synonyms == (Synonym("my.plugin", None, DescribedConfigSource.STATIC_BROKER),)
    assert entries["my.plugin"].value is None
    assert entries["my.plugin"].is_sensitive
    assert "hunter2" not in str(entries)
    assert "unstable.api.versions.enable" not in entries, "internal settings are not shown"


def test_the_defaults_of_all_brokers_stand_alone() -> None:
    entries = describe_broker_default(_sources({"num.partitions": "3"}, default={"log.retention.ms": "3"}))
    assert [(entry.name, entry.value, entry.source) for entry in entries] == [
        ("log.retention.ms", "3", DescribedConfigSource.DYNAMIC_DEFAULT_BROKER)
    ]


@pytest.mark.parametrize("key", GROUP_BOUNDS)
def test_a_group_is_given_what_lies_between_the_brokers_bounds(key: str) -> None:
    settings = Settings({})
    for broker_key, beyond in zip(GROUP_BOUNDS[key], (-1, 1), strict=True):
        if broker_key is None:
            continue
        bound = getattr(settings, broker_key.replace(".", "_"))
        assert validate_group_config({key: str(bound)}, settings=settings) == {key: str(bound)}
        with pytest.raises(InvalidConfig):
            validate_group_config({key: str(bound + beyond)}, settings=settings)


def test_a_groups_settings() -> None:
    sources = _sources({"group.consumer.session.timeout.ms": "50000"})
    entries = _by_name(describe_group({"consumer.heartbeat.interval.ms": "6000"}, sources=sources))
    assert entries["consumer.heartbeat.interval.ms"].source is DescribedConfigSource.GROUP
    assert entries["consumer.session.timeout.ms"].value == "50000"
    assert entries["streams.num.standby.replicas"].value == "0"


def test_a_groups_settings_have_the_brokers_as_synonyms() -> None:
    key, broker_key = "consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms"
    sources = _sources({broker_key: "1"}, own={broker_key: "2"}, default={broker_key: "3"})
    brokers = (
        Synonym(broker_key, "2", DescribedConfigSource.DYNAMIC_BROKER),
        Synonym(broker_key, "3", DescribedConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym(broker_key, "1", DescribedConfigSource.STATIC_BROKER),
        Synonym(broker_key, "0", DescribedConfigSource.DEFAULT),
    )
    without = _by_name(describe_group({}, sources=sources))[key]
    assert (without.value, without.synonyms) == ("2", brokers)
    own = _by_name(describe_group({key: "4"}, sources=sources))[key]
    assert (own.value, own.synonyms) == ("4", (Synonym(key, "4", DescribedConfigSource.GROUP), *brokers))


def test_a_groups_setting_that_no_broker_has_is_its_own_synonym() -> None:
    (entry,) = describe_group({}, sources=_sources(), keys=["share.auto.offset.reset"])
    assert entry.synonyms == (Synonym("share.auto.offset.reset", "latest", DescribedConfigSource.DEFAULT),)


def test_a_streams_group_has_an_assignor_of_the_broker() -> None:
    (entry,) = describe_group({}, sources=_sources(), keys=["streams.assignor.name"])
    assert entry.value == "sticky"
    assert entry.synonyms[0].name == "group.streams.assignors"
    assert validate_group_config({"streams.assignor.name": "sticky"}, settings=Settings({}))
    with pytest.raises(InvalidConfig, match=r"one of the broker's group\.streams\.assignors=sticky"):
        validate_group_config({"streams.assignor.name": "other"}, settings=Settings({}))


def test_internal_settings_of_a_group_are_described_where_they_are_set() -> None:
    key = "consumer.assignor.offload.enable"
    assert key not in _by_name(describe_group({}, sources=_sources()))
    assert _by_name(describe_group({key: "false"}, sources=_sources()))[key].value == "false"


@pytest.mark.parametrize("name", ["t", "u"])
def test_changes_between_images(name: str) -> None:
    first = TopicImage(name, TopicId(int=7), (), False)
    remade = TopicImage(name, TopicId(int=8), (), False)
    empty = ClusterImage()
    one = replace(empty, topics={name: first})
    other = replace(one, topics={name: remade})
    assert topic_changes(empty, one).created == (first,)
    assert topic_changes(one, empty).deleted == (first,)
    both = topic_changes(one, other)
    assert (both.created, both.deleted, both.changed) == ((remade,), (first,), ())
    configured = replace(one, configs={(ResourceKind.TOPIC, name): {"a": "1"}})
    assert config_changes(one, configured) == {(ResourceKind.TOPIC, name)}
    assert config_changes(configured, one) == {(ResourceKind.TOPIC, name)}
    assert topic_changes(one, configured).changed == ()
