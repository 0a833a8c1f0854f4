"""`--watch` and colour: what is drawn where, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.output import bad, good, in_color, render_table, use_color, warning
from odradek.cli.shared.watch import _with_seconds
from tests.cli.conftest import Shell
from tests.support.broker_process import Broker

RED, YELLOW = "\x1b[31m", "\x1b[33m"
SECONDS_MAX = 60


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--watch"], ["--watch=2"]),
        (["--watch", "5", "orders"], ["--watch", "5", "orders"]),
        (["--watch", "orders"], ["--watch=2", "orders"]),
        (["--watch=3", "orders"], ["--watch=3", "orders"]),
        (["--watch", "--offsets"], ["--watch=2", "--offsets"]),
        (["--watch", "-1"], ["--watch", "-1"]),
        (["--watch", "0.5"], ["--watch", "0.5"]),
        (["--", "--watch"], ["--", "--watch"]),
        (["orders"], ["orders"]),
    ],
)
def test_the_number_of_watch_may_be_left_out(given: list[str], read: list[str]) -> None:
    assert _with_seconds(given) == read


def test_a_watch_that_never_pauses_is_refused(invoke: Callable[..., Result]) -> None:
    result = invoke("status", "--watch", "0")
    assert result.exit_code == ExitCode.USAGE
    assert "0.1" in result.output


@pytest.fixture
def colored() -> Iterator[None]:
    with click.Context(click.Command("any"), color=True):
        yield


def test_colour_does_not_move_columns(colored: None) -> None:
    rows = [("a", warning(1), "x"), (bad("longer"), 22, good(None))]
    plain = render_table(("NAME", "N", "LAST"), [("a", 1, "x"), ("longer", 22, None)])
    assert click.unstyle(render_table(("NAME", "N", "LAST"), rows)) == plain
    assert f"{RED}longer" in render_table(("NAME", "N", "LAST"), rows)
    assert in_color(bad("none")) == f"{RED}none\x1b[0m"


def test_without_a_terminal_there_is_no_colour() -> None:
    assert in_color(bad("none")) == "none"
    assert render_table(("A",), [(bad("x"),)]).splitlines() == ["A", "x"]


@pytest.mark.parametrize(
    ("choice", "environment", "is_terminal", "has_color"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_when_there_is_colour(
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    environment: dict[str, str],
    is_terminal: bool,
    has_color: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    context = click.Context(click.Command("any"))
    use_color(context, choice)
    assert context.color is has_color


# --- against a broker --------------------------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.parametrize(
    "verb",
    [
        ("status",),
        ("topics", "list"),
        ("topics", "describe"),
        ("topics", "offsets"),
        ("groups", "list"),
        ("groups", "describe"),
        ("brokers", "list"),
        ("reassign", "list"),
    ],
    ids=" ".join,
)
def test_one_document_follows_the_other_until_ctrl_c(shell: Shell, verb: tuple[str, ...]) -> None:
    with shell.start(*verb, "--watch", "0.1", "--output", "json") as watching:
        assert watching.stdout is not None
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        assert type(first) is type(second) is type(shell_document(shell, *verb))
        assert interrupted(watching) == b""


def interrupted(watching: subprocess.Popen[bytes]) -> bytes:
    """What it says on stderr while Ctrl-C ends it with 0; an unread pipe would block it."""
    watching.send_signal(signal.SIGINT)
    _, error = watching.communicate(timeout=SECONDS_MAX)
    assert watching.returncode == ExitCode.OK
    return error


def shell_document(shell: Shell, *verb: str) -> Any:
    with shell.start(*verb, "--output", "json") as process:
        return json.loads(process.communicate(timeout=SECONDS_MAX)[0])


@pytest.mark.integration
def test_a_broker_that_is_away_meanwhile_is_shown_and_asked_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    try:
        broker.start()
        shell = Shell(broker.bootstrap)
        with shell.start("topics", "list", "--watch", "0.1", "-o", "json") as watching:
            assert watching.stdout is not None
            assert json.loads(watching.stdout.readline()) == []
            broker.kill()
            while isinstance(seen := json.loads(watching.stdout.readline()), list):
                pass
            assert seen["error"] == "ConnectionFailed"
            assert broker.bootstrap in seen["message"]
            broker.start()
            while not isinstance(seen, list):
                seen = json.loads(watching.stdout.readline())
            assert interrupted(watching) == b""
    finally:
        broker.close()


@pytest.mark.integration
def test_a_first_look_that_fails_ends_as_without_watch(shell: Shell, unique: str) -> None:
    shell.run("topics", "describe", "--watch", unique, code=ExitCode.NOT_FOUND)
    assert "odradek topics list" in shell.error


@pytest.mark.integration
def test_tables_follow_each_other_where_there_is_no_terminal(shell: Shell) -> None:
    with shell.start("brokers", "list", "--watch", "0.1") as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline().decode() for _ in range(5)]
        assert interrupted(watching) == b""
    assert lines[1].startswith("ID  ADDRESS")
    assert lines[3] == "\n"
    assert lines[4][:4] == lines[0][:4]


@contextmanager
def on_terminal(shell: Shell, *arguments: str, **environment: str) -> Iterator[tuple[Any, int]]:
    """The command with a terminal of 100 columns as its stdout."""
    master, slave = pty.openpty()
    variables = {**shell.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", **environment}
    variables.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    command = [sys.executable, "-m", "odradek", *arguments]
    with subprocess.Popen(command, env=variables, stdout=slave, stderr=subprocess.PIPE) as process:
        os.close(slave)
        try:
            yield process, master
        finally:
            if process.poll() is None:
                process.kill()
            os.close(master)


def read_until(master: int, found: Callable[[str], bool]) -> str:
    """What the terminal was sent, until it is as wanted."""
    shown = b""
    deadline = time.monotonic() + SECONDS_MAX
    while not found(shown.decode(errors="replace")):
        assert time.monotonic() < deadline, shown.decode()
        if select.select([master], [], [], 1)[0]:
            shown += os.read(master, 65536)
    return shown.decode()


@pytest.mark.integration
def test_a_terminal_is_drawn_over_and_has_its_cursor_back_at_the_end(shell: Shell) -> None:
    with on_terminal(shell, "status", "--watch", "0.1") as (process, master):
        shown = read_until(master, lambda text: text.count("every 0.1 s") >= 3)
        assert "\x1b[?25l" in shown, "the cursor is hidden"
        assert "\x1b[1A" in shown, "the second is drawn over the first"
        assert "\x1b[32mhealthy" in shown or f"{YELLOW}degraded" in shown
        process.send_signal(signal.SIGINT)
        read_until(master, lambda text: "\x1b[?25h" in text)
        assert process.wait(SECONDS_MAX) == ExitCode.OK
        assert process.stderr.read() == b""


@pytest.mark.integration
def test_a_terminal_shows_a_broker_that_went_away(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    try:
        broker.start()
        with on_terminal(Shell(broker.bootstrap), "brokers", "list", "--watch", "0.1") as (process, master):
            read_until(master, lambda text: "ADDRESS" in text)
            broker.kill()
            shown = read_until(master, lambda text: "trying again" in text)
            assert f"{RED}" in shown
            process.send_signal(signal.SIGINT)
            read_until(master, lambda text: "\x1b[?25h" in text)
            assert process.wait(SECONDS_MAX) == ExitCode.OK
    finally:
        broker.close()


@pytest.mark.integration
def test_no_color_is_honoured_on_a_terminal(shell: Shell) -> None:
    with on_terminal(shell, "status", NO_COLOR="1") as (process, master):
        shown = read_until(master, lambda text: "BROKER" in text)
        assert process.wait(SECONDS_MAX) in (ExitCode.OK, ExitCode.DEGRADED)
    assert "\x1b[" not in shown
