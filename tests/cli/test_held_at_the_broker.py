"""What ends a command, and what it leaves at the broker: no member of a group, and no open transaction."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.cli.exit_codes import ExitCode
from odradek.testing import TestBroker
from tests.cli.conftest import COMMAND_SECONDS_MAX, Shell

pytestmark = [pytest.mark.thorough, pytest.mark.integration]


def members(shell: Shell) -> list[str]:
    """The members of all groups that have partitions."""
    groups = shell.json("groups", "describe")
    return [member["member_id"] for group in groups for member in group["members"] if member["assignment"]]


def wait_for_member(shell: Shell) -> None:
    deadline = time.monotonic() + COMMAND_SECONDS_MAX
    while not members(shell):
        assert time.monotonic() < deadline, "nobody has joined"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with TestBroker(tmp_path / "broker") as broker:
        broker.create_topic("orders")
        yield Shell(broker.bootstrap)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGHUP, ExitCode.HUNG_UP),
    ],
)
def test_a_member_leaves_when_a_signal_ends_it(shell: Shell, number: signal.Signals, code: ExitCode) -> None:
    # A run under nohup, or in a shell's background, ignores some, and so would the command.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with shell.start("consume", "orders", "--group", "billing") as reader:
            wait_for_member(shell)
            reader.send_signal(number)
            assert reader.wait(COMMAND_SECONDS_MAX) == code
    finally:
        signal.signal(number, before)
    assert members(shell) == []


def test_a_member_leaves_when_the_reader_of_its_output_ends(shell: Shell) -> None:
    """No record arrives, so that no write says it."""
    with shell.start("consume", "orders", "--group", "billing") as reader:
        wait_for_member(shell)
        assert reader.stdout is not None
        reader.stdout.close()
        assert reader.wait(COMMAND_SECONDS_MAX) == ExitCode.OUTPUT_CLOSED
    assert members(shell) == []


def test_a_transaction_is_aborted_when_sigterm_ends_its_producer(shell: Shell) -> None:
    with shell.start("produce", "orders", "--transactional-id", "day", "--linger-ms", "0") as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"one\n")
        writer.stdin.flush()
        shell.run("consume", "orders", "--offset", "0", "--follow", "--max", "1")
        writer.send_signal(signal.SIGTERM)
        assert writer.wait(COMMAND_SECONDS_MAX) == ExitCode.TERMINATED
        assert writer.stderr is not None
        assert b"the transaction is aborted" in writer.stderr.read()
    (found,) = shell.json("transactions", "list")
    assert found["state"] == "CompleteAbort"


def test_a_signal_that_the_caller_ignores_stays_ignored(shell: Shell) -> None:
    """As with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with shell.start("consume", "orders", "--group", "billing") as reader:
            wait_for_member(shell)
            reader.send_signal(signal.SIGHUP)
            shell.run("produce", "orders", input="one\n")
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"one\n"
            reader.send_signal(signal.SIGTERM)
            assert reader.wait(COMMAND_SECONDS_MAX) == ExitCode.TERMINATED
    finally:
        signal.signal(signal.SIGHUP, before)
