"""A registry by its name."""

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.foundation.errors import SettingError
from odradek.metadata.registry.registries import open_registry
from odradek.metadata.registry.sqlite_store import SqliteStore
from odradek.metadata.registry.zookeeper.address import Ensemble, parse_ensemble


async def test_names_that_need_no_server(tmp_path: Path) -> None:
    file = await open_registry(f"sqlite:{tmp_path}/r:1")
    assert isinstance(file, SqliteStore)
    await file.close()
    assert (tmp_path / "r:1").exists()
    with pytest.raises(SettingError, match="names no file"):
        await open_registry("sqlite:")


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("zk", (("zk", 2181),), ""),
        ("memory", (("memory", 2181),), ""),
        ("zk1:2181, zk2:99/a/b/", (("zk1", 2181), ("zk2", 99)), "/a/b"),
        ("[::1]:5,[fe80::1]/x", (("::1", 5), ("fe80::1", 2181)), "/x"),
        ("zk/", (("zk", 2181),), ""),
    ],
)
def test_connect_strings(text: str, servers: tuple[tuple[str, int], ...], chroot: str) -> None:
    ensemble = parse_ensemble(text)
    assert ensemble == Ensemble(servers, chroot)
    assert parse_ensemble(str(ensemble)) == ensemble


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no host"),
        ("zk1,,zk2", "names no host"),
        ("/chroot", "names no host"),
        ("zk:port", "is not a port"),
        ("zk:0", "is not a port"),
        ("zk:65536", "is not a port"),
        ("::1", "brackets"),
        ("[::1", "IPv6"),
        ("[::1]5", "IPv6"),
        ("zk/a//b", "not a path"),
        ("zk/a/../b", "not a path"),
    ],
)
def test_connect_strings_that_cannot_be(text: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint) as refusal:
        parse_ensemble(text)
    assert "zookeeper.connect" in str(refusal.value)


def test_a_broker_with_another_registry_loads_nothing_of_zookeeper() -> None:
    program = (
        "import sys, odradek.broker.process.broker_process, odradek.broker.process.local_control; "
        "import odradek.metadata.registry.registries; "
        "print([name for name in sys.modules if 'kazoo' in name or 'zookeeper' in name])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "broker")},
    ).stdout
    assert printed == "[]\n"
