"""Keys, types, defaults, lower bounds and scopes are those that Apache Kafka 4.1.1's own classes declare.

`kafka_4_1_settings.json` was read out of Kafka's jars by reflection: [type, default, lower bound, how to change it] by
key.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.foundation.settings.areas.protection import (
    KEPT_BY_SASL,
    KEPT_BY_TLS,
    STORES_OF_LISTENERS,
)
from odradek.foundation.settings.broker_settings import all_settings
from odradek.foundation.settings.declaration import Range, Setting
from odradek.metadata.image.configs import TOPIC_SETTINGS
from odradek.metadata.image.group_configs import (
    FENCED_UNTIL_KEY,
    GROUP_SETTINGS,
    RESETS_KEY,
    STREAMS_ASSIGNOR_KEY,
)

FACTS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "kafka_4_1_settings.json").read_text())

# Dynamic in Kafka at every level or in none of the two; here, with the reason.
OTHER_SCOPES = {
    # Listeners are bound once: a change without effect would be false.
    "listeners": "read-only",
    "listener.security.protocol.map": "read-only",
    # Rules of TLS and logins are read once. Stores of a listener may change, and their files are followed.
    **dict.fromkeys((KEPT_BY_TLS | KEPT_BY_SASL) - STORES_OF_LISTENERS, "read-only"),
}
# Defaults that are not Kafka's, with the reason.
OTHER_DEFAULTS = {
    # Readers of the partitions wait for the abort, and what waits for longer than ten seconds looks stuck.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
# Dynamic only: Kafka declares them apart from the broker's other settings.
UNDECLARED = {
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
# Of Kafka's authorizer, which declares its keys by itself.
OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
# Of versions after 4.1: KIP-1066, a bound of Kafka 4.4, Streams groups and share groups.
LATER_OF_SHARES = {
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "share.assignment.interval.ms",
    "share.assignor.offload.enable",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.renew.acknowledge.enable",
}
LATER_OF_CONSUMERS = {"consumer.assignment.interval.ms", "consumer.assignor.offload.enable"}
LATER_OF_STREAMS = {
    "streams.acceptable.recovery.lag",
    "streams.assignment.interval.ms",
    "streams.assignor.offload.enable",
    "streams.initial.rebalance.delay.ms",
    "streams.num.warmup.replicas",
    "streams.rack.aware.assignment.tags",
    "streams.task.offset.interval.ms",
}
LATER = {
    "cordoned.log.dirs",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.topic.name.prefix",
    "max.decompressed.message.bytes",
    *(f"group.{key}" for key in LATER_OF_CONSUMERS | LATER_OF_STREAMS),
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.share.assignment.interval.ms",
    "group.share.assignor.offload.enable",
    *(
        f"group.share.{bound}.{key}"
        for bound in ("min", "max")
        for key in ("assignment.interval.ms", "delivery.count.limit", "partition.max.record.locks")
    ),
    "group.streams.assignors",
    "group.streams.max.assignment.interval.ms",
    "group.streams.max.warmup.replicas",
    "group.streams.min.assignment.interval.ms",
    "group.streams.min.task.offset.interval.ms",
}
LATER_OF_TOPICS = {"errors.deadletterqueue.group.enable", "max.decompressed.message.bytes"}
# Of Odradek alone: Kafka has no such port, no rule of retention besides its own, no log of slow requests, no traces.
# There a plug-in takes metrics of clients.
OWN = {
    "admin.listener.name",
    "broker.machine",
    "broker.processes",
    "client.telemetry.enable",
    "log.retention.policy",
    "slow.request.log.ms",
    "trace.enable",
    "trace.otlp.endpoint",
    "trace.sampling.ratio",
}
# Lower bounds of Kafka's that only code checks, or that are written in the type.
BOUND_ELSEWHERE = {"authorizer.class.name"}


def _check(setting: Setting, kind: str, default: str | None, lowest: str | None) -> None:
    assert setting.kind.name == kind
    assert setting.default_text == OTHER_DEFAULTS.get(setting.key, default)
    if (
        lowest is not None
        and setting.key not in BOUND_ELSEWHERE
        and lowest.lstrip("-").replace(".", "").isdigit()
    ):
        assert isinstance(setting.allowed, Range)
        assert float(setting.allowed.minimum) == float(lowest)


@pytest.mark.parametrize("key", sorted(FACTS["broker"]))
def test_a_broker_setting_is_kafkas(key: str) -> None:
    kind, default, lowest, scope = FACTS["broker"][key]
    setting = all_settings()[key]
    _check(setting, kind, default, lowest)
    assert setting.scope.value == OTHER_SCOPES.get(key, scope)


@pytest.mark.parametrize("key", sorted(FACTS["topic"]))
def test_a_topic_setting_is_kafkas(key: str) -> None:
    kind, default, lowest, _ = FACTS["topic"][key]
    setting = TOPIC_SETTINGS[key]
    _check(setting, kind, default, lowest)
    # Kafka's list of synonyms still names two keys that it has no more.
    assert list(setting.synonyms) == FACTS["synonyms"].get(key, [])


@pytest.mark.parametrize("key", sorted(FACTS["group"]))
def test_a_group_setting_is_kafkas(key: str) -> None:
    kind, default, lowest, _ = FACTS["group"][key]
    _check(GROUP_SETTINGS[key], kind, default, lowest)


def test_there_are_no_others() -> None:
    assert set(all_settings()) == set(FACTS["broker"]) | UNDECLARED | LATER | OF_THE_AUTHORIZER | OWN
    assert set(TOPIC_SETTINGS) == set(FACTS["topic"]) | LATER_OF_TOPICS
    assert set(GROUP_SETTINGS) == {
        *FACTS["group"],
        *LATER_OF_CONSUMERS,
        *LATER_OF_STREAMS,
        STREAMS_ASSIGNOR_KEY,
        *LATER_OF_SHARES,
        FENCED_UNTIL_KEY,
        RESETS_KEY,
    }


def test_every_setting_says_what_it_means() -> None:
    for setting in (*all_settings().values(), *TOPIC_SETTINGS.values(), *GROUP_SETTINGS.values()):
        assert setting.doc.endswith("."), setting.key
        assert "|" not in setting.doc, setting.key
