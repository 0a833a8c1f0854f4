"""Settings of the way to ZooKeeper."""

import pytest

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.areas.zookeeper import USED, ZookeeperSettings


def test_other_keys_are_not_its_matter_and_defaults_are_kafkas() -> None:
    settings = ZookeeperSettings({"log.dirs": "/d", "zookeeper.connect": "zk:1/x"})
    assert settings.zookeeper_connect == "zk:1/x"
    assert settings.zookeeper_session_timeout_ms == 18_000
    assert settings.zookeeper_connection_timeout_ms is None
    assert settings.zookeeper_max_in_flight_requests == 10
    assert not settings.zookeeper_set_acl
    assert settings.zookeeper_ssl_enabled_protocols == ("TLSv1.2", "TLSv1.3")
    assert (settings.warnings, settings.unused) == ((), ())
    with pytest.raises(AttributeError, match="frozen"):
        settings.zookeeper_connect = "other"
    assert all(setting.doc and setting.key.startswith("zookeeper.") for setting in USED.values())


def test_what_changes_nothing_and_what_nobody_knows_is_told_apart() -> None:
    settings = ZookeeperSettings({"zookeeper.sync.time.ms": "5", "zookeeper.conect": "zk"})
    assert settings.unused == ("zookeeper.sync.time.ms",)
    (warning,) = settings.warnings
    assert "zookeeper.conect is ignored; did you mean zookeeper.connect?" in warning


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ({"zookeeper.session.timeout.ms": "0"}, "at least 1"),
        ({"zookeeper.max.in.flight.requests": "1000"}, "between 1 and 128"),
        ({"zookeeper.ssl.truststore.type": "JKS"}, "one of PEM"),
        ({"zookeeper.ssl.enabled.protocols": "SSLv3"}, "TLSv1.2"),
        ({"zookeeper.ssl.enabled.protocols": ""}, "no version of TLS"),
        ({"zookeeper.ssl.endpoint.identification.algorithm": "x"}, "HTTPS"),
        ({"zookeeper.digest.user": "u"}, "together"),
        ({"zookeeper.digest.user": "a:b", "zookeeper.digest.password": "p"}, "without :"),
        ({"zookeeper.set.acl": "true"}, "needs zookeeper.digest.user"),
    ],
)
def test_mistakes_are_named(entries: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        ZookeeperSettings(entries)


def test_secrets_are_not_shown() -> None:
    settings = ZookeeperSettings(
        {"zookeeper.digest.user": "u", "zookeeper.digest.password": "hunter2", "zookeeper.plugin": "hunter2"}
    )
    assert "hunter2" not in repr(settings)
    assert settings.show_value("zookeeper.digest.user") == "u"
