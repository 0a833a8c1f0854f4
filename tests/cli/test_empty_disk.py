"""`odradek brokers empty-disk`: one log directory of a broker that serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.cli.exit_codes import ExitCode
from odradek.client.admin.emptying import DirectoryMove, plan_emptying
from odradek.client.results import LogDirectoryDescription, ReplicaSize
from odradek.foundation.errors import InvalidRequest, KafkaStorageError
from odradek.foundation.ids import TopicPartition
from tests.cli.conftest import Shell
from tests.support.broker_process import Broker


def _directory(path: str, *sizes: int, usable: int = 1000, **more: object) -> LogDirectoryDescription:
    replicas = {TopicPartition("t", number): ReplicaSize(size, 0) for number, size in enumerate(sizes)}
    return LogDirectoryDescription(1, path, 2000, usable, replicas, None, **more)  # type: ignore[arg-type]


def test_the_largest_replica_goes_to_where_most_bytes_are_free() -> None:
    found = [_directory("/a", 100, 700, 300), _directory("/b", usable=1000), _directory("/c", usable=800)]
    assert plan_emptying(found, "/a") == [
        DirectoryMove("t", 1, 700, "/b"),
        DirectoryMove("t", 2, 300, "/c"),
        DirectoryMove("t", 0, 100, "/c"),
    ]
    found[1:] = [_directory("/b", usable=2000), _directory("/c", usable=9000)]
    assert {one.to for one in plan_emptying(found, "/a", onto=["/b"])} == {"/b"}


def test_cordoned_and_failed_directories_take_nothing() -> None:
    failed = LogDirectoryDescription(1, "/c", -1, -1, {}, "it failed")
    found = [_directory("/a", 1), _directory("/b", is_cordoned=True), failed]
    with pytest.raises(InvalidRequest, match="no other log directory that takes the replicas of /a"):
        plan_emptying(found, "/a")


def test_what_does_not_fit_is_named_before_anything_moves() -> None:
    with pytest.raises(KafkaStorageError, match="t-0 of 900 bytes does not fit: /b has most room, 50 bytes"):
        plan_emptying([_directory("/a", 900, 950), _directory("/b", usable=1000)], "/a")


def test_a_path_that_is_none_of_the_brokers_is_named() -> None:
    with pytest.raises(InvalidRequest, match="/x is no log directory of this broker, which has /a, /b"):
        plan_emptying([_directory("/a", 1), _directory("/b")], "/x")


@pytest.mark.integration
def test_a_directory_is_emptied_and_gets_no_new_replicas(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    broker = Broker(
        tmp_path / "broker", settings={"log.dirs": f"{first},{second}", "file.delete.delay.ms": "0"}
    )
    broker.start()
    try:
        shell = Shell(broker.bootstrap)
        shell.run("topics", "create", "t", "-p", "4")
        shell.run("produce", "t", input="".join(f"{number}\n" for number in range(100)))
        shell.run("brokers", "empty-disk", "1", str(tmp_path), code=ExitCode.REFUSED)
        assert f"is no log directory of this broker, which has {first}, {second}" in shell.error
        planned = shell.json("brokers", "empty-disk", "1", str(first), "--dry-run")
        assert {one["to"] for one in planned} == {str(second)}
        moved = json.loads(shell.run("brokers", "empty-disk", "1", str(first), "--wait", "--output", "json"))
        assert {(one["topic"], one["partition"]) for one in moved} == {
            (one["topic"], one["partition"]) for one in planned
        }
        assert not list(first.glob("t-?"))
        assert len(list(second.glob("t-?"))) == 4
        shell.run("topics", "create", "new", "-p", "3")
        assert len(list(second.glob("new-?"))) == 3
        read = shell.run("consume", "t", "--from-beginning", "--format", "{value}")
        assert sorted(map(int, read.split())) == list(range(100))
        assert "no replica is in" in shell.run("brokers", "empty-disk", "1", str(first))
    finally:
        broker.close()
