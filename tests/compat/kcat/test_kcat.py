"""kcat with Debian's librdkafka 2.0.2: an older C client, and the tool people reach for first."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.support.peers import CreateTopic

pytestmark = pytest.mark.clients


@pytest.fixture(autouse=True)
def _kcat_is_there() -> None:
    if shutil.which("kcat") is None:
        # No wheel carries it: machines with nothing but Python, CI's among them, do without.
        pytest.skip("kcat is not installed: `apt-get install kcat`")


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"", seconds_max: float = 30) -> bytes:
    """Standard output of one kcat; AssertionError with what it said when it fails."""
    command = ["kcat", "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=seconds_max, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode(errors='replace')}"
    return done.stdout


def read(bootstrap: str, topic: str, *arguments: str) -> list[dict[str, Any]]:
    printed = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-J", "-X", "check.crcs=true", *arguments)
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_compressed_or_not(bootstrap: str, topic: str, compression: str) -> None:
    lines = [f"key-{number}:value-{number}" for number in range(1000)]
    kcat(
        *(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", compression),
        *("-X", "enable.idempotence=true", "-H", "origin=kcat"),
        stdin="\n".join(lines).encode(),
    )
    found = read(bootstrap, topic)
    assert [f"{record['key']}:{record['payload']}" for record in found] == lines
    assert [record["offset"] for record in found] == list(range(1000))
    assert {tuple(record["headers"]) for record in found} == {("origin", "kcat")}


def test_null_and_empty_are_kept_apart(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-Z", stdin=b"tombstone:\n")
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", stdin=b"x:y\n")
    assert [(record["key"], record["payload"]) for record in read(bootstrap, topic)] == [
        ("tombstone", None),
        ("x", "y"),
    ]


def test_a_group_of_kcat_balances_and_commits(bootstrap: str, create_topic: CreateTopic, unique: str) -> None:
    topic = create_topic(3)
    for partition in range(3):
        kcat(bootstrap, "-P", "-t", topic, "-p", str(partition), stdin=b"a\nb\nc\n")
    group = ["-G", unique, "-q", "-c", "9", "-X", "auto.offset.reset=earliest", topic]
    assert sorted(kcat(bootstrap, *group).split()) == sorted([b"a", b"b", b"c"] * 3)
    kcat(bootstrap, "-P", "-t", topic, "-p", "1", stdin=b"after\n")
    one = ["-G", unique, "-q", "-c", "1", "-X", "auto.offset.reset=earliest", topic]
    assert kcat(bootstrap, *one).split() == [b"after"]


def test_records_are_there_after_a_crash_and_a_stop(restartable: Any, bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"before\n")
    restartable.restart(crash=True)
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"between\n")
    restartable.restart()
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"after\n")
    assert [record["payload"] for record in read(bootstrap, topic)] == ["before", "between", "after"]
