"""A setting that promises protection which is not there is refused; every key of Kafka 4.1 is judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.areas.protection import (
    KEPT_BY_SASL,
    KEPT_BY_TLS,
    NO_PROMISE,
    PROTECTION_SETTINGS,
    protection_setting_of,
)
from odradek.foundation.settings.broker_settings import Settings, all_settings, find_setting
from odradek.foundation.settings.declaration import Kind, OneOf
from odradek.foundation.settings.protection import missing_protection

FACTS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "kafka_4_1_settings.json").read_text())

# Families of keys that this broker does not use and that protect nothing, with the reason.
NOT_ABOUT_PROTECTION = {
    "add.partitions.to.txn.": "retries between brokers",
    "alter.log.dirs.replication.quota.": "moves between directories are not made",
    "background.threads": "threads",
    "connection.failed.authentication.delay.ms": "how late a refusal is sent",
    "controller.listener.names": "KRaft's listeners; a secured one is refused as a listener",
    "controller.performance.": "logging",
    "controller.quorum.": "KRaft's elections",
    "delegation.token.expiry.": "how long tokens live, and none can be made without the secret key",
    "delegation.token.max.lifetime.ms": "how long tokens live, and none can be made without the secret key",
    "early.start.listeners": "the order of a start",
    "group.": "groups",
    "initial.broker.registration.": "KRaft's registration",
    "internal.metadata.": "KRaft's log",
    "kafka.metrics.": "metrics",
    "log.flush.start.offset.": "checkpoints",
    "metadata.": "KRaft's log",
    "metric": "metrics",
    "num.": "threads",
    "process.roles": "KRaft's roles",
    "queued.max.requests": "queues between Kafka's threads, which are not here; a connection's requests are bounded",
    "remote.": "tiered storage",
    "replication.quota.": "how replication throttles are measured; the throttles are kept",
    "server.max.startup.time.ms": "how long a start may take",
    "share.": "share groups",
    "socket.connection.setup.": "how long brokers wait for each other",
    "telemetry.max.bytes": "clients' metrics are not taken",
    "unclean.leader.election.interval.ms": "how often KRaft looks",
    "unstable.": "features in development",
}
PURGATORIES = "purgatory.purge.interval.requests"


def _is_judged(key: str) -> bool:
    known = (*NO_PROMISE, *NOT_ABOUT_PROTECTION)
    return protection_setting_of(key) is not None or key.startswith(known) or key.endswith(PURGATORIES)


def _another_value(key: str) -> str:
    """A value that is allowed, and not the default."""
    setting = all_settings()[key]
    if key == "ssl.client.auth":
        return "required"
    allowed = {
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "HTTPS",
        "ssl.protocol": "TLSv1.2",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    if key in allowed:
        return allowed[key]
    if setting.used and isinstance(setting.allowed, OneOf):
        return next(one for one in setting.allowed.words if one != setting.default)
    if key == "security.inter.broker.protocol":
        return "SSL"  # where no listener is secured
    if key == "sasl.oauthbearer.assertion.algorithm":
        return "ES256"
    if setting.kind is Kind.BOOLEAN:
        return "false" if setting.default else "true"
    return "77" if setting.kind in (Kind.INT, Kind.LONG, Kind.SHORT) else "other"


@pytest.mark.parametrize("key", sorted(FACTS["broker"]))
def test_every_key_of_kafka_is_used_or_refused_or_known_to_promise_nothing(key: str) -> None:
    setting = all_settings()[key]
    # Used, and kept only with a listener that speaks TLS or SASL; brokers talk over a plain listener.
    if setting.used and key not in (*KEPT_BY_TLS, *KEPT_BY_SASL, "security.inter.broker.protocol"):
        assert protection_setting_of(key) is None
        return
    assert _is_judged(key), "say in broker_settings.protection what it promises"


@pytest.mark.parametrize(
    "key", sorted(key for key in FACTS["broker"] if protection_setting_of(key) is not None)
)
def test_the_default_is_no_obstacle_and_another_value_is(key: str) -> None:
    default = all_settings()[key].default_text
    if default is not None:
        assert Settings({key: default}).warnings == ()
    for given in (key, f"listener.name.internal.{key}"):
        with pytest.raises(SettingError) as refusal:
            Settings({given: _another_value(key)})
        assert f"{given}=" in str(refusal.value)
        assert "\n" not in str(refusal.value)


HARMLESS = {
    "authorizer.class.name": "",
    "allow.everyone.if.no.acl.found": "True",
    "super.users": "User:admin; User:CN=a,O=b",
    "ssl.client.auth": "none",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.keystore.location": "",
    "ssl.keymanager.algorithm": "PKIX",
    "security.inter.broker.protocol": "PLAINTEXT",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.login.refresh.window.factor": "0.7",
    "max.connection.creation.rate": "100",
    "max.connections": "5",
    "listener.name.plaintext.max.connections": "2147483647",
    "zookeeper.ssl.crl.enable": "false",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:SASL_SSL",
}


@pytest.mark.parametrize("key", HARMLESS)
def test_what_promises_nothing_is_accepted(key: str) -> None:
    assert Settings({key: HARMLESS[key]}).warnings == ()


def test_a_secured_clusters_file_is_refused_in_one_line_with_the_remedy() -> None:
    given = {
        "listeners": "PLAINTEXT://:9092,CLIENTS://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.location": "/k.jks",
        "ssl.keystore.password": "hunter2",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": "hunter2",
        "listener.name.clients.max.connections": "10",
        "quota.consumer.default": "20",
        "quota.producer.default": "1000000",
        "sasl.misspelt": "hunter2",
        "num.partitions": "3",
    }
    with pytest.raises(SettingError) as refusal:
        Settings(given)
    line = str(refusal.value)
    assert "\n" not in line
    assert line.startswith("4 settings promise protection that this broker does not have")
    kept = {key for key in given if key.startswith(("ssl.", "sasl.enabled", "listener.name.clients.scram"))}
    for key in set(given) - kept - {"listeners", "listener.security.protocol.map", "num.partitions"}:
        assert f"{key}=" in line, key
    for words in (
        "clients have a quota, which `odradek quotas set` sets: remove them",
        "To start without protection",
    ):
        assert words in line, words
    assert "hunter2" not in line


def test_a_promise_beside_a_mistake_is_one_line_of_the_list() -> None:
    with pytest.raises(SettingError) as refusal:
        Settings({"num.partitions": "x", "principal.builder.class": "a.B"})
    assert len(str(refusal.value).splitlines()) == 3
    assert "1 setting promises" in str(refusal.value)


def test_every_row_says_what_it_asks_for() -> None:
    assert len({row.key for row in PROTECTION_SETTINGS}) == len(PROTECTION_SETTINGS)
    for row in PROTECTION_SETTINGS:
        key = row.key.rstrip(".") + (".anything" if row.is_family else "")
        broken = missing_protection(key, _another_value(key) if key in all_settings() else "x", find_setting)
        assert broken is not None, row
        assert row.asks_for in str(broken)
        if row.harmless:
            assert missing_protection(row.key, row.harmless, find_setting) is None
