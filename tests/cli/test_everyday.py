"""Everyday verbs against a running broker: status, offsets at a time, trimming, versions, partitions with problems.

They ask for nothing that Apache Kafka does not answer: `ODRADEK_TEST_PEER=kafka` runs them against it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.support.peers import Peer
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration

T0 = 1_700_000_000_000


def write(shell: Shell, topic: str, count: int, *, partitions: int = 1) -> None:
    """`count` records a second apart in partition 0 of a new topic that keeps them."""
    shell.run("topics", "create", topic, "-p", str(partitions), "-c", "retention.ms=-1")
    lines = [f'{{"value": "{n}", "timestamp_ms": {T0 + n * 1000}, "partition": 0}}' for n in range(count)]
    shell.run("produce", topic, "--json", input="\n".join(lines))


def offsets(rows: list[dict[str, Any]]) -> list[int | None]:
    return [row["offset"] for row in rows]


# --- status ------------------------------------------------------------------------------------------------------


def status(shell: Shell) -> tuple[int, dict[str, Any]]:
    """The exit code and the document: how full the disk of this machine is, is not for a test to say."""
    with shell.start("status", "--output", "json") as process:
        out, error = process.communicate(timeout=SECONDS_MAX)
    assert error == b""
    return process.returncode, json.loads(out)


def test_a_broker_that_is_well_says_so(shell: Shell, unique: str, broker: Peer) -> None:
    shell.run("topics", "create", unique, "-p", "2")
    code, document = status(shell)
    assert (document["health"], code) in (("healthy", ExitCode.OK), ("degraded", ExitCode.DEGRADED))
    assert (document["controller"], document["problems"], document["moves"]) == (1, {}, [])
    assert document["cluster_id"]
    (found,) = document["brokers"]
    assert (found["id"], found["state"], found["address"]) == (1, "live", broker.bootstrap)
    assert found["replicas"] == found["leaders"] == document["partitions"] >= 2
    (directory,) = found["log_directories"]
    assert 0 < directory["usable_bytes"] < directory["total_bytes"]
    with shell.start("status") as process:
        shown = process.communicate(timeout=SECONDS_MAX)[0].decode()
    assert shown.startswith(f"cluster     {document['cluster_id']}: {document['health']}\n")
    assert "brokers     1 live\n" in shown


def test_a_status_without_a_broker_is_no_connection(tmp_path: Path) -> None:
    Shell("127.0.0.1:1").run("status", code=ExitCode.CONNECTION)


# --- offsets -----------------------------------------------------------------------------------------------------


def test_offsets_at_a_time(shell: Shell, unique: str) -> None:
    write(shell, unique, 5, partitions=2)
    ask = ("topics", "offsets", unique, "--at")
    latest = shell.json("topics", "offsets", unique)
    assert [(row["topic"], row["partition"], row["offset"]) for row in latest] == [
        (unique, 0, 5),
        (unique, 1, 0),
    ]
    assert offsets(shell.json(*ask, "earliest")) == [0, 0]
    assert offsets(shell.json(*ask, "latest")) == [5, 0]
    youngest = shell.json(*ask, "max-timestamp")
    assert [(row["offset"], row["timestamp_ms"]) for row in youngest] == [(4, T0 + 4000), (None, None)]
    at_two = shell.json(*ask, str(T0 + 1500))
    assert [(row["offset"], row["timestamp_ms"]) for row in at_two] == [(2, T0 + 2000), (None, None)]
    assert offsets(shell.json(*ask, "2023-11-14T22:13:21Z")) == [1, None]
    assert offsets(shell.json(*ask, "now")) == [None, None]
    table = shell.run(*ask, str(T0))
    assert table.splitlines()[1].split() == [unique, "0", "0", "2023-11-14T22:13:20.000Z", "0"]


def test_offsets_of_several_topics_and_of_some_partitions(shell: Shell, unique: str) -> None:
    write(shell, unique, 2, partitions=3)
    other = f"{unique}-other"
    write(shell, other, 3)
    rows = shell.json("topics", "offsets", f"{unique}:0,2", other)
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        (unique, 0, 2),
        (unique, 2, 0),
        (other, 0, 3),
    ]
    everything = {(row["topic"], row["partition"]) for row in shell.json("topics", "offsets")}
    assert {(unique, 0), (unique, 1), (unique, 2), (other, 0)} <= everything
    shell.run("topics", "offsets", f"{unique}:7", code=ExitCode.NOT_FOUND)
    assert "it has 3, numbered from 0" in shell.error
    shell.run("topics", "offsets", f"{unique}-nope", code=ExitCode.NOT_FOUND)
    shell.run("topics", "offsets", unique, "--at", "someday", code=ExitCode.USAGE)
    assert "max-timestamp" in shell.error


# --- trim --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_trim_shows_what_would_go_and_deletes_only_when_told(shell: Shell, unique: str) -> None:
    write(shell, unique, 10, partitions=2)
    trim = ("topics", "trim", unique)
    plan = shell.json("topics", "trim", f"{unique}:0", "--to-offset", "4")
    expected = {"topic": unique, "partition": 0, "first_offset": 0, "new_first_offset": 4, "next_offset": 10}
    assert plan == {"executed": False, "partitions": [{**expected, "records": 4}]}
    assert "nothing was deleted; add --execute to delete 4 records" in shell.error
    assert offsets(shell.json("topics", "offsets", unique, "--at", "earliest")) == [0, 0]

    done = shell.json("topics", "trim", f"{unique}:0", "--to-offset", "4", "--execute")
    assert done == {"executed": True, "partitions": [{**expected, "records": 4}]}
    assert shell.error == ""
    assert offsets(shell.json("topics", "offsets", unique, "--at", "earliest")) == [4, 0]
    kept = [line["value"] for line in shell.json_lines("consume", unique, "--from-beginning")]
    assert kept == ["4", "5", "6", "7", "8", "9"]

    assert shell.json("topics", "trim", f"{unique}:0", "--to-offset", "2")["partitions"][0]["records"] == 0
    to_time = ("--to-datetime", str(T0 + 6000))
    assert [row["records"] for row in shell.json(*trim, *to_time)["partitions"]] == [2, 0]
    assert "RECORDS GONE" in shell.run(*trim, *to_time, "--execute")
    assert offsets(shell.json("topics", "offsets", unique, "--at", "earliest")) == [6, 0]
    shell.run(*trim, "--to-latest", "--execute")
    assert offsets(shell.json("topics", "offsets", unique, "--at", "earliest")) == [10, 0]


def test_a_trim_past_the_end_deletes_nothing_anywhere(shell: Shell, unique: str) -> None:
    write(shell, unique, 3, partitions=2)
    shell.run("topics", "trim", unique, "--to-offset", "2", "--execute", code=ExitCode.REFUSED)
    assert shell.error == (
        f"odradek: partition {unique}-1 has records up to its high watermark 0, so it cannot be trimmed to 2; "
        "nothing was deleted\n"
    )
    assert offsets(shell.json("topics", "offsets", unique, "--at", "earliest")) == [0, 0]


def test_a_trim_takes_the_file_of_kafka_delete_records(shell: Shell, unique: str, tmp_path: Path) -> None:
    write(shell, unique, 3, partitions=2)
    file = tmp_path / "offsets.json"
    rows = [{"topic": unique, "partition": 0, "offset": 2}, {"topic": unique, "partition": 1, "offset": -1}]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    done = shell.json("topics", "trim", "--from-file", str(file), "--execute")
    assert [row["records"] for row in done["partitions"]] == [2, 0]
    for content, reason in (
        ("{", "Expecting property name"),
        ('{"partitions": []}', "no list of partitions"),
        (json.dumps({"partitions": [{**rows[0], "offset": True}]}), "does not name a topic"),
        (json.dumps({"partitions": [rows[0], rows[0]]}), "twice"),
        (json.dumps({"version": 2, "partitions": rows}), "its version is 2"),
    ):
        file.write_text(content)
        shell.run("topics", "trim", "--from-file", str(file), code=ExitCode.FAILED)
        assert reason in shell.error
    shell.run("topics", "trim", "--from-file", str(tmp_path / "none"), code=ExitCode.NOT_FOUND)


@pytest.mark.parametrize(
    "arguments",
    [
        ["t"],
        ["--to-latest"],
        ["t", "--to-latest", "--to-offset", "1"],
        ["t", "--from-file", "x"],
        ["t", "--to-datetime", "someday"],
        ["t", "--to-latest", "--dry-run", "--execute"],
    ],
)
def test_a_trim_that_cannot_be_meant_is_wrong_use(shell: Shell, arguments: list[str]) -> None:
    shell.run("topics", "trim", *arguments, code=ExitCode.USAGE)


def test_a_compacted_topic_is_not_trimmed(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-c", "cleanup.policy=compact")
    shell.run("topics", "trim", unique, "--to-latest", code=ExitCode.REFUSED)
    assert "cleanup.policy=compact" in shell.error
    shell.run("topics", "trim", f"{unique}-nope", "--to-latest", code=ExitCode.NOT_FOUND)


# --- versions ----------------------------------------------------------------------------------------------------


def test_api_versions_and_features(shell: Shell) -> None:
    (found,) = shell.json("brokers", "api-versions")
    apis = {api["name"]: api for api in found["apis"]}
    assert found["broker"] == 1
    assert apis["Fetch"]["key"] == 1
    assert apis["ListOffsets"]["min_version"] <= 1 < apis["ListOffsets"]["max_version"]
    features = {feature["name"]: feature for feature in found["features"]}
    assert features["group.version"]["min_version"] == 0
    assert features["group.version"]["finalized_version"] == 1
    table = shell.run("brokers", "api-versions", "1")
    assert table.startswith("broker 1\nAPI ")
    assert "\nFEATURE " in table
    assert shell.run("brokers", "api-versions", "--compare") == "all speak the same: brokers 1\n"
    shell.run("brokers", "api-versions", "9", code=ExitCode.NOT_FOUND)
    assert "there is no live broker 9; the cluster's brokers are: 1" in shell.error


# --- partitions with problems ------------------------------------------------------------------------------------


def test_partitions_are_chosen_by_what_is_wrong_with_them(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "2")
    for choice in ("--under-replicated", "--unavailable", "--under-min-isr", "--unavailable-partitions"):
        assert shell.json("topics", "describe", unique, choice) == []
    (described,) = shell.json("topics", "describe", unique, "--at-min-isr")
    assert [row["problems"] for row in described["partitions"]] == [[], []]
    assert [row["min_in_sync_replicas"] for row in described["partitions"]] == [1, 1]
    listed = {topic["name"]: topic for topic in shell.json("topics", "list")}
    assert listed[unique]["problems"] == {}
