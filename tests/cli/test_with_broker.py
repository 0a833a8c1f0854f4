"""The verbs against a running broker: what they print, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import odradek.testing
from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import SOURCE, Shell
from tests.support.polling import SECONDS_MAX

pytestmark = pytest.mark.integration


def values(lines: list[dict[str, object]]) -> list[object]:
    return [line["value"] for line in lines]


@pytest.mark.thorough
def test_a_topic_is_made_shown_changed_and_deleted(shell: Shell, unique: str) -> None:
    assert (
        shell.run("topics", "create", unique, "-p", "2", "-c", "retention.ms=1000") == f"created  {unique}\n"
    )
    shell.run("topics", "create", unique, code=ExitCode.EXISTS)
    assert shell.run("topics", "create", unique, "--if-not-exists") == f"exists   {unique}\n"
    listed = {topic["name"]: topic for topic in shell.json("topics", "list")}
    assert listed[unique]["partitions"] == 2
    assert unique in shell.run("topics", "list")
    shell.run(
        "topics",
        "alter",
        unique,
        "--partitions",
        "3",
        "-c",
        "segment.bytes=1048576",
        "--unset",
        "retention.ms",
    )
    (described,) = shell.json("topics", "describe", unique, "--offsets", "--configs")
    assert described["configs"] == {"segment.bytes": "1048576"}
    assert [(p["first_offset"], p["next_offset"]) for p in described["partitions"]] == [(0, 0)] * 3
    assert "PARTITION  LEADER" in shell.run("topics", "describe", unique)
    assert shell.run("topics", "delete", unique) == f"would delete  {unique}: 3 partitions with 0 records\n"
    assert unique in shell.run("topics", "list"), "a dry run deletes nothing"
    assert shell.json("topics", "delete", unique, "--execute") == [{"topic": unique, "result": "deleted"}]
    shell.run("topics", "delete", unique, "--execute", code=ExitCode.NOT_FOUND)
    assert shell.error == f"odradek: there is no topic '{unique}'; `odradek topics list` lists all topics\n"
    shell.run("topics", "alter", unique, "--partitions", "9", code=ExitCode.NOT_FOUND)
    assert "`odradek topics list`" in shell.error
    shell.run("topics", "delete", unique, "--if-exists", "--execute")
    shell.run("topics", "describe", unique, code=ExitCode.NOT_FOUND)


def test_a_name_that_no_topic_can_have_is_told_with_the_rule(shell: Shell) -> None:
    shell.run("topics", "describe", "ord.*", code=ExitCode.REFUSED)
    assert shell.error.startswith("odradek: no topic can be named 'ord.*': a name has up to 249 letters")


def test_what_the_broker_declines_ends_with_7(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", "not/allowed", code=ExitCode.REFUSED)
    shell.run("topics", "create", unique, "-c", "retention.ms=soon", code=ExitCode.REFUSED)
    assert shell.run("topics", "create", unique, "--validate-only") == f"valid  {unique}\n"
    shell.run("topics", "describe", unique, code=ExitCode.NOT_FOUND)


def test_refused_records_expire_after_the_given_time() -> None:
    with odradek.testing.broker() as broker:
        broker.create_topic("refused")
        broker.fail("Produce", error="NOT_ENOUGH_REPLICAS")
        shell = Shell(broker.bootstrap)
        shell.run("--timeout", "5", "produce", "refused", input="a\n", code=ExitCode.TIMEOUT)
        assert "could not be written in 5 s; the last error" in shell.error


def test_lines_become_records_and_lines_again(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, "-K", ":", "-H", "h=1", "--null-value", "NULL", input="a:1\nb:2\na:NULL\n")
    lines = shell.json_lines("consume", unique, "--from-beginning")
    assert [(line["key"], line["value"], line["headers"]) for line in lines] == [
        ("a", "1", [["h", "1"]]),
        ("b", "2", [["h", "1"]]),
        ("a", None, [["h", "1"]]),
    ]
    assert shell.run("consume", unique, "--from-beginning", "--keys", "--offsets", "--headers") == (
        "0:0\th=1\ta\t1\n0:1\th=1\tb\t2\n0:2\th=1\ta\t\n"
    )
    assert (
        shell.run("consume", unique, "--offset", "1", "--max", "1", "--format", "{offset}={value}") == "1=2\n"
    )
    assert len(shell.json_lines("consume", unique, "--offset", "-2")) == 2
    shell.run("produce", unique, "-K", ":", input="no separator\n", code=ExitCode.FAILED)
    assert "line 1 has no ':'" in shell.error


def test_json_lines_go_round_byte_for_byte(shell: Shell, unique: str, tmp_path: Path) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    file = tmp_path / "records.jsonl"
    file.write_text(
        '{"key": "ü", "value_base64": "/wA="}\n\n{"value": {"a": 1}, "timestamp_ms": 1700000000000}\n'
    )
    shell.run("configs", "set", "topic", unique, "retention.ms=-1")
    shell.run("produce", unique, "--json", "--file", str(file), "--compression", "zstd")
    first = shell.run("consume", unique, "--from-beginning", "--output", "json")
    assert json.loads(first.splitlines()[0])["value_base64"] == "/wA="
    shell.run("topics", "create", unique + "-copy", "-p", "1")
    shell.run("produce", unique + "-copy", "--json", input=first)
    second = shell.run("consume", unique + "-copy", "--from-beginning", "--output", "json")
    assert second.replace(unique + "-copy", unique) == first


def test_reading_begins_and_ends_at_times(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1", "-c", "retention.ms=-1")
    lines = [f'{{"value": "{n}", "timestamp_ms": {1_700_000_000_000 + n * 1000}}}' for n in range(5)]
    shell.run("produce", unique, "--json", input="\n".join(lines))
    from_two = ("--from", "1700000002000")
    assert values(shell.json_lines("consume", unique, *from_two)) == ["2", "3", "4"]
    assert values(shell.json_lines("consume", unique, *from_two, "--until", "1700000004000")) == ["2", "3"]
    assert shell.json_lines("consume", unique, "--from", "5m") == []
    shell.run("consume", unique, "--partition", "7", "--from-beginning", code=ExitCode.NOT_FOUND)


@pytest.mark.thorough
def test_a_group_is_read_described_reset_and_deleted(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, input="".join(f"{n}\n" for n in range(10)))
    options = ("--group", unique, "--from-beginning")
    assert values(shell.json_lines("consume", unique, *options, "--max", "4")) == ["0", "1", "2", "3"]
    assert values(shell.json_lines("consume", unique, *options, "--max", "2")) == ["4", "5"]
    (group,) = shell.json("groups", "describe", unique)
    assert (group["lag"], group["state"]) == (4, "Empty")
    assert 0 < group["lag_seconds"] < 600
    assert "LAG TIME" in shell.run("groups", "describe", unique)
    assert unique in [listed["group_id"] for listed in shell.json("groups", "list")]
    reset = ("groups", "reset-offsets", unique, "--topic", unique)
    plan = shell.json(*reset, "--shift-by", "-100")
    expected = {"group": unique, "topic": unique, "partition": 0, "current": 6, "new": 0}
    assert plan == {"executed": False, "partitions": [expected]}
    assert "dry run" in shell.error
    assert shell.json("groups", "describe", unique)[0]["lag"] == 4
    shell.run(*reset, "--to-offset", "8", "--execute")
    assert values(shell.json_lines("consume", unique, *options, "--exit-at-end")) == ["8", "9"]
    assert shell.json(*reset, "--by-duration", "1h")["partitions"][0]["new"] == 0
    assert shell.json(*reset, "--to-latest")["partitions"][0]["new"] == 10
    assert shell.run("groups", "delete", unique) == f"would delete  {unique}\n"
    assert shell.error == "dry run: nothing was deleted; add --execute to do it\n"
    assert shell.run("groups", "delete", unique, "--execute") == f"deleted  {unique}\n"
    shell.run("groups", "delete", unique, "--execute", code=ExitCode.NOT_FOUND)
    shell.run("groups", "describe", unique, code=ExitCode.NOT_FOUND)


def test_a_group_with_members_is_not_reset(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, input="x\n")
    with shell.start("consume", unique, "--group", unique, "--from-beginning") as member:
        assert member.stdout is not None
        assert member.stdout.readline() == b"x\n"
        shell.run(
            "groups",
            "reset-offsets",
            unique,
            "--topic",
            unique,
            "--to-earliest",
            "--execute",
            code=ExitCode.REFUSED,
        )
        assert "stop its consumers first" in shell.error
        (group,) = shell.json("groups", "describe", unique)
        assert [m["assignment"] for m in group["members"]] == [[f"{unique}-0"]]
        member.send_signal(signal.SIGINT)
        assert member.wait(SECONDS_MAX) == ExitCode.INTERRUPTED
        assert member.stderr is not None
        assert member.stderr.read().strip() == b""
    (group,) = shell.json("groups", "describe", unique)
    assert (group["state"], group["members"], group["lag"]) == ("Empty", [], 0), "it keeps its place"


def test_settings_are_set_shown_and_unset(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique)
    shell.run("configs", "set", "topic", unique, "retention.ms=1234", "cleanup.policy=compact,delete")
    shown = {entry["name"]: entry for entry in shell.json("configs", "describe", "topic", unique)}
    assert shown["retention.ms"]["value"] == "1234"
    assert shown["retention.ms"]["source"] == "topic"
    assert "retention.ms" in shell.run("configs", "describe", "topic", unique)
    shell.run("configs", "unset", "topic", unique, "retention.ms")
    (entry,) = shell.json("configs", "describe", "topic", unique, "retention.ms")
    assert entry["source"] != "topic"
    everything = shell.json("configs", "describe", "topic", unique, "--all")
    assert len(everything) > 20
    shell.run("configs", "set", "topic", unique, "no.such.key=1", code=ExitCode.REFUSED)


@pytest.mark.parametrize(
    "verb", [("describe",), ("set", "log.retention.ms=1"), ("unset", "log.retention.ms")]
)
def test_settings_of_no_broker_are_an_error_at_once(shell: Shell, verb: tuple[str, ...]) -> None:
    # The time allowed is longer than a command may take here: waiting for the broker would fail.
    shell.run("configs", verb[0], "broker", "9", *verb[1:], "--timeout", "300", code=ExitCode.NOT_FOUND)
    assert shell.error == "odradek: there is no live broker 9; the cluster's brokers are: 1\n"


def test_following_prints_records_as_they_come(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, input="before\n")
    with shell.start("consume", unique, "--from-beginning", "--follow", "--max", "2") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"before\n"
        shell.run("produce", unique, input="after\n")
        assert following.stdout.readline() == b"after\n"
        assert following.wait(SECONDS_MAX) == 0


def test_a_line_typed_is_sent_before_the_input_ends(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    with shell.start("produce", unique) as typing:
        assert typing.stdin is not None
        typing.stdin.write(b"typed\n")
        typing.stdin.flush()
        assert shell.run("consume", unique, "--offset", "0", "--follow", "--max", "1") == "typed\n"
        typing.send_signal(signal.SIGINT)
        assert typing.wait(SECONDS_MAX) == ExitCode.INTERRUPTED


def test_a_reader_that_goes_away_ends_the_command_quietly(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    shell.run("produce", unique, input="x" * 1000 + "\n" + "y\n" * 200_000)
    with shell.start("consume", unique, "--from-beginning") as reading:
        assert reading.stdout is not None and reading.stderr is not None
        reading.stdout.readline()
        reading.stdout.close()
        assert reading.wait(SECONDS_MAX) == ExitCode.OUTPUT_CLOSED
        assert reading.stderr.read() == b""


def test_perf_measures(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique, "-p", "1")
    produced = shell.json("perf", "produce", unique, "--records", "2000", "--size", "50")
    assert produced["records"] == 2000
    assert produced["bytes"] == 100_000
    assert 0 < produced["latency_ms"]["p50"] <= produced["latency_ms"]["max"]
    for options in ((), ("--decode",)):
        consumed = shell.json("perf", "consume", unique, "--records", "2000", *options)
        assert consumed["records"] == 2000
    shown = shell.run("perf", "consume", unique)
    assert "records/s" in shown
    what = "this client and the broker together, one process each"
    assert produced["measured"] == what and f"measured: {what}\n" in shown
    assert shell.run("perf", "produce", unique, "-n", "1").startswith("1 record, ")


@pytest.mark.parametrize("option", ["--timeout", "-b"])
def test_silence_ends_with_5(shell: Shell, option: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        shell.run("topics", "list", "-b", address, "--timeout", "0.3", code=ExitCode.TIMEOUT)
    assert "did not answer within 0.3 s" in shell.error


def test_a_broker_is_started_serves_and_stops(tmp_path: Path, unique: str) -> None:
    command = [
        sys.executable,
        "-m",
        "odradek",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--data",
        str(tmp_path / "d"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    pipe = subprocess.PIPE
    options = ["--hints", "--console", "--log-format", "json"]
    with subprocess.Popen([*command, *options], stdout=pipe, stderr=pipe, env=environment) as broker:
        assert broker.stdout is not None and broker.stderr is not None
        ready = broker.stdout.readline().decode()
        assert ready.startswith("ready id=1 ")
        address = ready.split("PLAINTEXT://")[1].split()[0]
        shell = Shell(address)
        shell.run("topics", "create", unique)
        printed: list[str] = []
        while not printed or not printed[-1].startswith("ready console "):
            printed.append(broker.stdout.readline().decode())
            assert printed[-1], "it ended"
        assert f"-b {address}" in "".join(printed), "the hints"
        console = printed[-1]
        assert console.endswith(f"cluster={address}\n")
        with urllib.request.urlopen(f"{console.split()[2]}/api/topics", timeout=SECONDS_MAX) as answer:
            assert unique in answer.read().decode()
        again = subprocess.run(command, capture_output=True, env=environment, timeout=30)
        assert again.returncode == ExitCode.FAILED
        assert b"Traceback" not in again.stderr
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(SECONDS_MAX) == 0
        for line in broker.stderr.read().splitlines():
            assert {"time", "level", "logger", "message"} <= set(json.loads(line))
