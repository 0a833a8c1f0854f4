"""A mirror's property file: MirrorMaker's keys mean what they mean there, and what cannot be meant is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.foundation.errors import SettingError
from odradek.mirror.reference import reference
from odradek.mirror.settings import DeliveryGuarantee, OffsetReset, Side
from odradek.mirror.settings_file import read_mirror_settings

GIVEN = {
    "clusters": "a, b, a.b",
    "a.bootstrap.servers": "127.0.0.1:1",
    "b.bootstrap.servers": "127.0.0.1:2",
    "a->b.enabled": "true",
}
PAGE = Path(__file__).parents[2] / "docs/reference/mirror.md"


def read(target: str | None = None, **more: str) -> object:
    return read_mirror_settings({**GIVEN, **more}, source="mm2.properties", target=target)


def test_keys_of_a_flow_go_before_those_of_all() -> None:
    settings = read_mirror_settings(
        {
            **GIVEN,
            "topics": "one",
            "a->b.topics": "orders.*, bills",
            "replication.factor": "3",
            "a.consumer.auto.offset.reset": "latest",
            "offset-syncs.topic.location": "target",
            "exactly.once.source.support": "disabled",
            "name": "nightly",
            "security.protocol": "PLAINTEXT",
            "tasks.max": "4",
            "offset.storage.replication.factor": "1",
            "a.producer.linger.ms": "5",
        },
        source="mm2.properties",
    )
    [flow] = settings.flows
    assert flow.label == "a->b"
    assert flow.topics.matches("orders-1") and flow.topics.matches("bills") and not flow.topics.matches("one")
    assert not flow.topics.matches("my-orders")
    assert flow.topics_exclude.matches("x.internal") and flow.topics_exclude.matches("__consumer_offsets")
    assert flow.replication_factor == 3
    assert flow.offset_reset is OffsetReset.LATEST
    assert flow.offset_syncs_topic_location is Side.TARGET
    assert flow.delivery is DeliveryGuarantee.DISABLED and not flow.is_exactly_once
    assert settings.group_id(flow) == "odradek-mirror.nightly.a"
    assert flow.source.properties == {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "PLAINTEXT"}
    [warning] = settings.warnings
    assert "a.producer.linger.ms, offset.storage.replication.factor" in warning


def test_a_flow_that_is_not_enabled_emits_heartbeats_alone() -> None:
    settings = read_mirror_settings(GIVEN, source="mm2.properties")
    assert [flow.label for flow in settings.heartbeat_flows] == ["a.b->b"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"a->b.topic": "x"}, "did you mean topics"),
        ({"a->c.enabled": "true"}, "not about two of the clusters"),
        ({"topics.blacklist": "x"}, "is called topics.exclude"),
        ({"topic.filter.class": "com.example.Mine"}, "code of its own"),
        ({"config.providers": "file"}, "has no effect here"),
        ({"replication.factor": "many"}, "must be a whole number"),
        ({"topics": "("}, "must be regular expressions"),
        ({"replication.policy.class": "com.example.Mine"}, "DefaultReplicationPolicy"),
        ({"b->a.enabled": "true"}, "--target"),
        ({"a->b.enabled": "false"}, "enables no flow"),
        ({"a.security.protocol": "NONE"}, "must be one of"),
        ({"emit.heartbeat.enabled": "true"}, "did you mean emit.heartbeats.enabled"),
    ],
)
def test_what_cannot_be_meant_is_refused(more: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        read(**more)


def test_the_target_is_chosen_where_there_are_several() -> None:
    settings = read_mirror_settings({**GIVEN, "b->a.enabled": "true"}, source="mm2.properties", target="a")
    assert [flow.label for flow in settings.flows] == ["b->a"]
    with pytest.raises(SettingError, match=r"no flow to a\.b is enabled"):
        read(target="a.b")


@pytest.mark.generated
def test_the_reference_page_is_what_the_declarations_say() -> None:
    assert PAGE.read_text() == reference(), (
        "run: python -m odradek.mirror.reference > docs/reference/mirror.md"
    )
