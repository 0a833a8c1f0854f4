"""`odradek brokers disk` and what `brokers list` says of disks: sums, order, words, and what is left out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from odradek.cli.brokers import disk_run
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.disk_words import disk_words, refusal_words
from odradek.client.admin.disks import ReplicaOnDisk, replicas
from odradek.client.errors import ConnectionFailed
from odradek.client.results import LogDirectoryDescription, ReplicaSize
from odradek.foundation.ids import TopicPartition
from tests.cli.conftest import Shell

MIB = 1 << 20


def directory(
    broker: int,
    path: str,
    sizes: dict[str, int] | None = None,
    *,
    usable: int = 50 * MIB,
    total: int = 100 * MIB,
    error: str | None = None,
) -> LogDirectoryDescription:
    where = {TopicPartition(name[:-2], int(name[-1])): size for name, size in (sizes or {}).items()}
    found = {key: ReplicaSize(size_bytes=size, offset_lag=0) for key, size in where.items()}
    return LogDirectoryDescription(broker, path, total, usable, found, error)


CLUSTER = {
    1: [directory(1, "/a", {"small-0": 1, "large-0": 10 * MIB}), directory(1, "/b", {"large-1": 20 * MIB})],
    2: [
        directory(2, "/a", {"large-0": 10 * MIB}, usable=100),
        directory(2, "/b", error="it failed", total=-1),
    ],
    3: ConnectionFailed("nobody listens"),
}


@pytest.fixture
def asked(invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`asked("--by", …)`: the verb, with the answers of CLUSTER."""
    monkeypatch.setattr("odradek.cli.shared.options.CommandSession.run", lambda *_: CLUSTER)
    return lambda *arguments: invoke("brokers", "disk", *arguments)


def rows(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_topics_are_added_up_and_the_largest_is_first(asked: Callable[..., Result]) -> None:
    assert rows(asked()) == [
        ["TOPIC", "REPLICAS", "SIZE"],
        ["large", "3", "40.0", "MiB"],
        ["small", "1", "1", "B"],
    ]


def test_what_is_left_out_is_said_and_ends_with_the_error(asked: Callable[..., Result]) -> None:
    result = asked()
    assert result.stderr.splitlines() == [
        "odradek: broker 2: /b is left out: it failed",
        "odradek: the disks of broker 3 are left out: nobody listens",
    ]
    assert result.exit_code == ExitCode.CONNECTION


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        pytest.param(
            "partition", [["large", 0, 20 * MIB], ["large", 1, 20 * MIB], ["small", 0, 1]], id="partition"
        ),
        pytest.param(
            "topic,broker", [[1, "large", 30 * MIB], [2, "large", 10 * MIB], [1, "small", 1]], id="both"
        ),
        pytest.param(
            "directory, broker,topic",
            [
                [1, "/b", "large", 20 * MIB],
                [1, "/a", "large", 10 * MIB],
                [2, "/a", "large", 10 * MIB],
                [1, "/a", "small", 1],
            ],
            id="directory",
        ),
    ],
)
def test_columns_are_chosen_and_json_has_bytes(
    asked: Callable[..., Result], by: str, expected: list[list[Any]]
) -> None:
    found = json.loads(asked("--by", by, "--output", "json").stdout)
    assert [[value for name, value in row.items() if name != "replicas"] for row in found] == expected


def test_directories_have_their_volumes(asked: Callable[..., Result]) -> None:
    found = json.loads(asked("--by", "broker,directory", "--output", "json").stdout)
    assert [
        (row["broker"], row["directory"], row["bytes"], row["usable_bytes"], row["is_full"], row["failed"])
        for row in found
    ] == [
        (1, "/b", 20 * MIB, 50 * MIB, False, 0),
        (1, "/a", 10 * MIB + 1, 50 * MIB, False, 0),
        (2, "/a", 10 * MIB, 100, True, 0),
        (2, "/b", 0, None, False, 1),
    ]
    table = rows(asked("--by", "directory"))
    assert table[0] == ["DIRECTORY", "REPLICAS", "SIZE", "FREE", "TOTAL", "STATE"]
    assert [line[-1] for line in table[1:]] == ["full", "failed"]


def test_directories_on_one_volume_count_it_once(asked: Callable[..., Result]) -> None:
    (one, two) = json.loads(asked("--by", "broker", "--output", "json").stdout)
    assert (one["total_bytes"], one["usable_bytes"]) == (100 * MIB, 50 * MIB)
    assert (two["total_bytes"], two["usable_bytes"], two["failed"]) == (100 * MIB, 100, 1)


def test_an_unknown_column_is_wrong_use(invoke: Callable[..., Result]) -> None:
    result = invoke("brokers", "disk", "--by", "topic,size")
    assert "'size' is not one of: broker, directory, topic, partition" in result.stderr


@pytest.mark.parametrize(
    ("directories", "words"),
    [
        pytest.param([directory(1, "/a")], "50.0 MiB of 100.0 MiB free", id="one"),
        pytest.param([directory(1, "/a", usable=8)], "full, 8 B of 100.0 MiB free", id="full"),
        pytest.param([directory(1, "/a", total=-1, usable=-1, error="x")], "failed", id="failed"),
        pytest.param(
            [
                directory(1, "/a", usable=0),
                directory(1, "/b", total=-1, usable=-1, error="x"),
                directory(1, "/c"),
            ],
            "1 of 3 directories full, 1 of 3 directories failed, 50.0 MiB of 200.0 MiB free",
            id="several",
        ),
        pytest.param([directory(1, "/a", total=-1, usable=-1)], None, id="a broker before KIP-827"),
    ],
)
def test_a_brokers_disks_in_words(directories: list[LogDirectoryDescription], words: str | None) -> None:
    assert disk_words(directories) == words


def test_a_group_is_told_which_directory_refuses_its_commits() -> None:
    assert refusal_words(directory(2, "/a", usable=0)) == (
        "commits are refused: the log directory /a of the coordinator, broker 2, is full (0 B free)"
    )


def test_replicas_of_brokers_that_did_not_answer_are_none() -> None:
    assert replicas({1: [directory(1, "/a", {"t-0": 5})], 3: ConnectionFailed("away")}) == [
        ReplicaOnDisk(1, "/a", "t", 0, 5)
    ]
    assert disk_run._sums([], ("topic",)) == []


@pytest.mark.integration
def test_sizes_are_those_of_the_files(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "2")
    shell.run("produce", unique, input="x" * 5000 + "\n")
    found = shell.json("brokers", "disk", "--topic", unique, "--by", "directory,partition")
    assert [row["topic"] for row in found] == [unique, unique]
    for row in found:
        path = Path(row["directory"], f"{unique}-{row['partition']}")
        assert row["bytes"] == sum(file.stat().st_size for file in path.glob("*.log"))
    assert sum(row["bytes"] for row in found) > 5000
    (whole,) = shell.json("brokers", "disk", "--by", "broker")
    usage = os.statvfs(found[0]["directory"])
    assert whole["total_bytes"] == usage.f_blocks * usage.f_frsize
    (broker,) = shell.json("brokers", "list")
    assert broker["log_directories"][0]["total_bytes"] == whole["total_bytes"]
    assert broker["log_directories"][0]["error"] is None


@pytest.mark.integration
def test_brokers_and_topics_that_are_not_there(shell: Shell, unique: str) -> None:
    shell.run("brokers", "disk", "77", code=ExitCode.NOT_FOUND)
    assert "there is no live broker 77; the cluster's brokers are: " in shell.error
    shell.run("brokers", "disk", "--topic", unique, code=ExitCode.NOT_FOUND)
    assert f"there is no topic '{unique}'" in shell.error
