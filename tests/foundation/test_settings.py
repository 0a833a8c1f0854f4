"""Reading server.properties: what is taken, what is refused, what is only remarked."""

import sys
from types import FrameType

import pytest

from odradek.foundation.endpoints import Endpoint, complete
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_settings import USED, Settings, all_settings, find_setting
from odradek.foundation.settings.file import parse_properties

# Every start of a broker and every command make settings once.
SETTINGS_CALLS_MAX = 600


def test_without_entries_everything_has_kafkas_default() -> None:
    settings = Settings()
    assert settings.num_partitions == 1
    assert settings.log_segment_bytes == 1 << 30
    assert settings.log_cleanup_policy == ("delete",)
    assert settings.log_retention_ms is None
    assert settings.effective_retention_ms == 168 * 3_600_000
    assert settings.effective_roll_ms == 168 * 3_600_000
    assert settings.effective_broker_id == 1
    assert settings.log_directories == ("/tmp/kafka-logs",)
    assert settings.listener_endpoints == (Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert settings.warnings == settings.unused == ()


def test_texts_become_values() -> None:
    settings = Settings(
        {
            "node.id": " 7 ",
            "log.dirs": "/a, /b",
            "auto.create.topics.enable": "FALSE",
            "log.cleanup.policy": "compact, delete",
            "log.cleaner.min.cleanable.ratio": "0.25",
            "log.retention.minutes": "5",
            "compression.type": "zstd",
        }
    )
    assert settings.effective_broker_id == 7
    assert settings.log_directories == ("/a", "/b")
    assert settings.auto_create_topics_enable is False
    assert settings.log_cleanup_policy == ("compact", "delete")
    assert settings.log_cleaner_min_cleanable_ratio == 0.25
    assert settings.effective_retention_ms == 300_000
    assert settings.text("log.cleanup.policy") == "compact,delete"
    assert settings.text("log.cleaner.io.max.bytes.per.second") == "1.7976931348623157E308"
    assert settings.text("num.io.threads") == "8"


def test_the_finer_key_wins_over_the_coarser() -> None:
    given = {"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}
    assert Settings(given).effective_retention_ms == 3
    assert Settings({"log.retention.hours": "-1"}).effective_retention_ms == -1
    assert Settings({"log.roll.ms": "9", "log.roll.hours": "1"}).effective_roll_ms == 9
    assert Settings({"log.roll.jitter.hours": "1"}).effective_roll_jitter_ms == 3_600_000
    assert Settings({"log.flush.scheduler.interval.ms": "8"}).effective_flush_ms == 8
    assert Settings({"broker.id": "4"}).effective_broker_id == 4


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("log.segment.bytes", "5", "at least 1048576"),
        ("num.partitions", "zero", "a whole number of at most 2147483647"),
        ("num.partitions", "1_000", "a whole number"),
        ("num.partitions", "٣", "a whole number"),
        ("num.partitions", "99999999999", "a whole number of at most 2147483647"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "between 0 and 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "a number"),
        ("compression.type", "zst", "did you mean zstd"),
        ("compression.gzip.level", "0", "between 1 and 9, or -1"),
        ("log.cleanup.policy", "delete,shrink", "a list of compact, delete"),
        ("log.retention.ms", "0", "at least 1, or -1"),
        ("log.retention.hours", "-2", "at least 1, or -1"),
        ("listeners", "nonsense", "NAME://host:port"),
        ("listeners", "PLAINTEXT://h:70000", "at most 65535"),
        ("listeners", "MINE://:1", "add MINE:PLAINTEXT to listener.security.protocol.map"),
        ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "twice"),
        ("listeners", "", "listeners is empty"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "clients cannot connect"),
        ("advertised.listeners", "OTHER://h:1", "OTHER:PLAINTEXT"),
        ("advertised.listeners", "SSL://h:1", "no listener SSL"),
        ("listener.security.protocol.map", "A:B", "PLAINTEXT, SSL"),
        ("inter.broker.listener.name", "X", "not one of listeners"),
        ("max.connections.per.ip.overrides", "h", "address:count"),
        ("max.connections.per.ip", "0", "admits no connection"),
        ("group.consumer.session.timeout.ms", "1000", "between group.consumer.min.session.timeout.ms=45000"),
        ("group.consumer.assignors", "org.example.Mine", "uniform and range"),
        ("default.replication.factor", "0", "at least 1"),
        ("offsets.topic.compression.codec", "9", "between 0 and 4"),
        ("log.dirs", ",", "at least one path"),
        ("log.dirs", "/a,/a", "twice"),
        ("remote.log.manager.task.retry.jitter", "0.9", "between 0 and 0.5"),
    ],
)
def test_a_bad_value_is_an_error_with_key_value_and_what_is_allowed(key: str, text: str, wanted: str) -> None:
    with pytest.raises(SettingError) as refusal:
        Settings({key: text})
    assert wanted in str(refusal.value)
    assert key in str(refusal.value)
    assert text in str(refusal.value)


def test_all_mistakes_come_in_one_error() -> None:
    with pytest.raises(SettingError) as refusal:
        Settings({"num.partitions": "0", "log.segment.bytes": "x", "fetch.max.bytes": "1"})
    for key in ("3 settings", "num.partitions", "log.segment.bytes", "fetch.max.bytes"):
        assert key in str(refusal.value)


def test_a_secret_is_never_shown() -> None:
    settings = Settings({"num.partitions": "3", "my.plugin.token": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert settings.show_value("num.partitions") == "3"
    assert settings.show_value("my.plugin.token") == "[hidden]"
    with pytest.raises(SettingError) as refusal:
        Settings(
            {"ssl.key.password": "hunter2", "sasl.my.secret": "hunter2", "listener.name.x.ssl.y": "hunter2"}
        )
    assert "ssl.key.password=[hidden]" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_unknown_keys_give_a_warning_and_known_unused_ones_do_not() -> None:
    settings = Settings(
        {
            "log.segment.byte": "1",
            "completely.different": "1",
            "num.io.threads": "3",
            "zookeeper.connect": "localhost:2181",
            "listener.name.internal.ssl.client.auth": "none",
            "listener.name.internal.scram-sha-256.connections.max.reauth.ms": "0",
        }
    )
    assert settings.warnings == (
        "unknown setting log.segment.byte is ignored; did you mean log.segment.bytes?",
        "unknown setting completely.different is ignored",
    )
    assert settings.unused == (
        "num.io.threads",
        "zookeeper.connect",
        "listener.name.internal.ssl.client.auth",
        "listener.name.internal.scram-sha-256.connections.max.reauth.ms",
    )
    assert find_setting("listener.name.internal.nonsense") is None


def test_listeners_by_name_with_ipv6() -> None:
    settings = Settings(
        {
            "listeners": "IN://[::1]:0,out://0.0.0.0:9093",
            "advertised.listeners": "OUT://example.org:19093,IN://[fe80::1]:0",
            "listener.security.protocol.map": "in:PLAINTEXT,OUT:plaintext",
        }
    )
    assert settings.listener_endpoints == (
        Endpoint("IN", "::1", 0, "PLAINTEXT"),
        Endpoint("OUT", "0.0.0.0", 9093, "PLAINTEXT"),
    )
    told = complete(settings.advertised_endpoints, bound_ports={"IN": 4711, "OUT": 9093}, host_name="me")
    assert [str(endpoint) for endpoint in told] == ["OUT://example.org:19093", "IN://[fe80::1]:4711"]
    both = Settings({"listeners": "PLAINTEXT://0.0.0.0:9092,PLAINTEXT://[::]:9092"})
    assert len(both.listener_endpoints) == 2
    told = complete(both.advertised_endpoints, bound_ports={}, host_name="me")
    assert {endpoint.host for endpoint in told} == {"me"}


def test_connection_bounds_by_address() -> None:
    settings = Settings({"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:7,host:0"})
    assert settings.connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 7, "host": 0}


def test_settings_are_frozen_and_compare_by_what_was_given() -> None:
    settings = Settings({"num.partitions": "3"})
    with pytest.raises(AttributeError, match="frozen"):
        settings.num_partitions = 4
    with pytest.raises(AttributeError, match="frozen"):
        del settings.num_partitions
    assert settings == Settings.of(num_partitions=3)
    assert hash(settings) == hash(Settings.of(num_partitions=3))
    changed = settings.with_overrides({"num.partitions": "5"})
    assert (changed.num_partitions, settings.num_partitions) == (5, 3)
    with pytest.raises(SettingError, match="not the name"):
        Settings.of(num_partition=3)


def test_every_default_reads_back_as_itself() -> None:
    for setting in all_settings().values():
        if setting.default_text is not None:
            assert setting.parse(setting.default_text) == setting.default, setting.key
    for key, setting in USED.items():
        assert getattr(Settings(), setting.attribute) == setting.default, key


def test_settings_are_made_in_few_calls() -> None:
    Settings({"num.partitions": "1"})
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        Settings({"num.partitions": "1", "log.dirs": "/a"})
    finally:
        sys.setprofile(before)
    assert 0 < calls < SETTINGS_CALLS_MAX, calls


def test_a_properties_file_as_kafka_ships_it() -> None:
    entries = parse_properties(
        "# a comment\n! another\n\nnode.id=1\nlisteners = PLAINTEXT://:9092\nlog.dirs:/tmp/a,\\\n    /tmp/b\n"
    )
    assert Settings(entries).log_directories == ("/tmp/a", "/tmp/b")
