"""`odradek top` against a broker: plain tables, the document, and a story in a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.cli.test_watch import read_until
from tests.support.broker_process import Broker, free_port
from tests.support.local_process import running

SECONDS_MAX = 60
GROUP_AND_TOPIC = ("--topic", "orders", "--to-offset")


@pytest.mark.integration
def test_two_looks_have_rates_and_what_brokers_count(tmp_path: Path) -> None:
    port = free_port()
    with running(Broker(tmp_path, arguments=["--admin", f"127.0.0.1:{port}"])) as broker:
        shell = Shell(broker.bootstrap)
        shell.run("topics", "create", "orders", "-p", "2")
        shell.run("produce", "orders", input="a\nb\nc\n")
        shell.run("groups", "reset-offsets", "billing", *GROUP_AND_TOPIC, "0", "--execute")
        options = ("--every", "1", "--admin", f"127.0.0.1:{port}", "--output", "json")
        with shell.start("top", *options) as process:
            while process.poll() is None:
                shell.run("produce", "orders", input="d\ne\n")
            assert process.stdout is not None
            shown = json.loads(process.stdout.read())
        (row,) = [one for one in shown["topics"] if one["topic"] == "orders"]
        assert row["records_in_per_second"] > 0 and row["bytes_in_per_second"] > 0
        assert row["bytes_out_per_second"] == 0 and row["partitions"] == 2
        assert shown["are_bytes_counted_by_brokers"] and shown["unasked"] == {}
        (found,) = shown["groups"]
        assert (found["group"], found["members"]) == ("billing", 0) and found["lag"] > 3
        assert found["lag_change_per_second"] > 0
        (broker_row,) = shown["brokers"]
        assert (broker_row["id"], broker_row["state"], broker_row["controller"]) == (1, "live", "through it")
        assert shown["health"] == "healthy" and "health" in shown["passed"]

        # Without a terminal it prints plain tables and ends.
        printed = shell.run("top", "--every", "0.2", "--admin", "127.0.0.1:1")
        assert "metrics could not be asked: http://127.0.0.1:1 cannot be reached" in printed
        assert "no partition has a problem" in printed and "there is no queue" in printed
        assert [line.split()[0] for line in printed.splitlines() if line.startswith("orders")] == ["orders"]
        assert "\x1b[" not in printed


@pytest.mark.integration
def test_it_lives_in_a_terminal_until_q(shell: Shell, unique: str) -> None:
    shell.run("topics", "create", unique)
    shell.run("groups", "reset-offsets", unique, "--topic", unique, "--to-latest", "--execute")
    master, slave = pty.openpty()
    variables = {**shell.environment, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-m", "odradek", "top", "--every", "0.2"]
    with subprocess.Popen(command, env=variables, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        try:
            seen = read_until(master, lambda text: "brokers 1/1" in text and "groups" in text)
            assert "\x1b[?1049h" in seen, "the screen of before is kept"
            os.write(master, b"\t\t")
            # Its own topic may be far down, behind those of other tests.
            read_until(master, lambda text: f" {unique[:2]}" in text)
            os.write(master, b"/" + unique.encode() + b"\r")
            read_until(master, lambda text: f"/{unique[:8]}" in text)
            os.write(master, b"?")
            read_until(master, lambda text: "sort by this column" in text)
            os.write(master, b"\x1b")
            read_until(master, lambda text: "shows all rows" in text)
            os.write(master, b"q")
            read_until(master, lambda text: "\x1b[?1049l" in text)
            assert process.wait(SECONDS_MAX) == ExitCode.OK
        finally:
            if process.poll() is None:
                process.kill()
            os.close(master)


def test_without_a_broker_there_is_no_connection() -> None:
    Shell("127.0.0.1:1").run("top", "--once", code=ExitCode.CONNECTION)


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Result]) -> None:
    monkeypatch.setattr("odradek.cli.cluster.top.verb_run._is_on_terminal", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = invoke("top")
    assert result.exit_code == ExitCode.FAILED
    assert "pip install 'odradek[top]'" in result.output
