"""`odradek audit-access`: what is open in a ZooKeeper and in a data directory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from kazoo.client import KazooClient

from odradek.cli.exit_codes import ExitCode
from tests.support.zookeeper import ZooKeeper


def test_a_private_directory_is_in_order_and_a_wide_one_is_listed(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST", "a secret")
    data = tmp_path / "data"
    made = invoke("users", "bootstrap", "a", "--data", str(data), "--password-variable", "FIRST")
    assert made.exit_code == ExitCode.OK
    assert invoke("audit-access", "--data", str(data)).exit_code == ExitCode.OK
    data.chmod(0o755)
    (data / "registry.sqlite").chmod(0o644)
    (data / "t-0").symlink_to("/somewhere")
    result = invoke("audit-access", "--data", str(data), "--output", "json")
    assert result.exit_code == ExitCode.DEGRADED
    assert [(one["kind"], one["open"]) for one in json.loads(result.stdout)] == [
        ("directory", "other users of this machine may read"),
        ("file", "has the mode 0644"),
        ("link", "points to /somewhere"),
    ]


@pytest.mark.integration
def test_open_nodes_are_listed_and_a_protected_user_is_not(
    invoke: Callable[..., Result], tmp_path: Path, zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST", "a secret")
    connect = f"{zookeeper.connect}/{uuid.uuid4()}"
    config = tmp_path / "server.properties"
    config.write_text(
        f"zookeeper.connect={connect}\nzookeeper.set.acl=true\n"
        "zookeeper.digest.user=odradek\nzookeeper.digest.password=secret\n"
    )
    missing = invoke("audit-access", "--config", str(config))
    assert missing.exit_code == ExitCode.FAILED
    assert "no node" in missing.stderr
    bootstrap = ("users", "bootstrap", "a", "--password-variable", "FIRST")
    assert invoke(*bootstrap, "--config", str(config)).exit_code == ExitCode.OK
    assert invoke("audit-access", "--config", str(config)).exit_code == ExitCode.OK
    client = KazooClient(hosts=zookeeper.connect, auth_data=[("digest", "odradek:secret")])
    client.start()
    client.create(f"/{connect.partition('/')[2]}/kafka-acl/Topic", b"", makepath=True)
    client.stop()
    client.close()
    found = invoke("audit-access", "--config", str(config), "--output", "json")
    assert found.exit_code == ExitCode.DEGRADED
    assert [(one["path"], one["open"]) for one in json.loads(found.stdout)] == [
        ("/kafka-acl", "world:anyone:cdrwa"),
        ("/kafka-acl/Topic", "world:anyone:cdrwa"),
    ]
    assert invoke(*bootstrap, "--zookeeper", f"{connect}/open", "--unprotected").exit_code != ExitCode.OK


def test_something_to_look_at_is_named(invoke: Callable[..., Result]) -> None:
    result = invoke("audit-access")
    assert result.exit_code == ExitCode.USAGE
    assert "--zookeeper CONNECT" in result.stderr
