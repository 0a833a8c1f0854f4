"""Names in shell completion: in this process, in a real bash, and silence where nothing answers."""

from __future__ import annotations

import os
import pty
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.shell_completion import FishComplete, ShellComplete, ZshComplete
from click.testing import Result

from odradek.cli.main import command_line
from odradek.foundation.client_limits import COMPLETION_SECONDS_MAX
from tests.cli.conftest import Shell
from tests.support.broker_process import free_port

# A shell under test asks with this limit: the product's own is short, and a busy machine is slow.
PATIENCE_SECONDS = 60.0
BASH_SECONDS_MAX = 2 * PATIENCE_SECONDS
PATIENT_COMMAND = f"""
import sys
from odradek.foundation import client_limits
client_limits.COMPLETION_SECONDS_MAX = {PATIENCE_SECONDS}
from odradek.__main__ import main
sys.exit(main())
"""
Complete = Callable[..., list[str]]


def completed(*words: str) -> list[str]:
    """What completes the last of these words."""
    shell = ShellComplete(command_line, {}, "odradek", "_ODRADEK_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are expected come however busy the machine is; only the test of a silent broker is about the limit."""
    monkeypatch.setattr("odradek.foundation.client_limits.COMPLETION_SECONDS_MAX", PATIENCE_SECONDS)


@pytest.fixture
def complete(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Complete:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", bootstrap)
    return completed


@pytest.fixture
def topic(shell: Shell, unique: str) -> str:
    """A topic of three partitions and a group of the same name."""
    shell.run("topics", "create", unique, "-p", "3")
    shell.run("groups", "reset-offsets", unique, "--topic", unique, "--to-latest", "--execute")
    return unique


@pytest.mark.integration
def test_names_come_from_the_cluster(complete: Complete, topic: str) -> None:
    begun = topic[:6]
    for words in (
        ("topics", "describe"),
        ("topics", "alter"),
        ("topics", "delete"),
        ("produce",),
        ("consume",),
        ("perf", "consume"),
        ("configs", "describe", "topic"),
        ("groups", "delete-offsets", topic, "--topic"),
        ("groups", "describe"),
        ("groups", "reset-offsets"),
        ("configs", "describe", "group"),
        ("consume", "x", "--group"),
    ):
        assert topic in complete(*words, begun), words
    assert topic not in complete("topics", "describe", topic, begun), "it is on the line already"
    assert all(not name.startswith("_") for name in complete("topics", "describe", ""))
    assert "__consumer_offsets" in complete("topics", "describe", "__")
    assert complete("brokers", "drain", "") == ["1"]
    assert complete("configs", "describe", "broker", "") == ["1", "default"]
    assert complete("groups", "delete-offsets", topic, "--topic", f"{topic}:0,") == [
        f"{topic}:0,1",
        f"{topic}:0,2",
    ]
    assert complete("produce", topic, "--partition", "") == ["0", "1", "2"]
    assert complete("consume", topic, "-p", "2,") == ["2,0", "2,1"]
    assert "log.retention.ms" in complete("configs", "describe", "broker", "1", "log.ret")
    assert "log.retention.ms=" in complete("configs", "set", "broker", "default", "log.ret")


def test_what_is_known_without_a_broker() -> None:
    assert completed("topics", "create", "t", "--config", "retention.m") == ["retention.ms="]
    assert completed("configs", "set", "topic", "t", "retention.ms=") == []
    assert completed("configs", "unset", "topic", "t", "retention.ms", "retention.") == ["retention.bytes"]
    assert completed("profile", "set", "request.t") == ["request.timeout.ms="]
    assert completed("groups", "list", "--type", "") == [
        "classic",
        "consumer",
        "share",
        "streams",
        "zookeeper",
    ]


def test_profiles_are_completed(invoke: Callable[..., Result]) -> None:
    invoke("profile", "create", "staging", "-b", "x:1")
    for words in (("profile", "use"), ("topics", "list", "--profile"), ("--profile",)):
        assert completed(*words, "sta") == ["staging"]


@pytest.mark.thorough
def test_the_line_says_which_cluster_is_asked(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    assert completed("topics", "describe", topic) == []
    assert completed("topics", "describe", "-b", bootstrap, topic) == [topic]
    assert completed("-b", bootstrap, "topics", "describe", topic) == [topic]


@pytest.mark.parametrize("setting", ["http://x", "127.0.0.1:1", "no such host", ""])
def test_what_fails_completes_nothing_and_says_nothing(
    setting: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", setting)
    monkeypatch.setenv("ODRADEK_PROFILE", "gone")
    assert completed("topics", "describe", "") == []
    assert completed("groups", "describe", "") == []
    assert capfd.readouterr() == ("", "")


def test_names_with_control_characters_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "odradek.cli.shared.completers.ask", lambda ctx, names: ["a\nplain,b", "a\x1b[2J", "a b"]
    )
    assert completed("groups", "describe", "") == ["a b"]


# --- the shells --------------------------------------------------------------------------------------------------


@pytest.fixture
def on_path(tmp_path: Path, shell: Shell) -> dict[str, str]:
    """An environment in which `odradek` is a command that has no broker by default."""
    return _with_command(tmp_path, shell, f"{shlex.quote(sys.executable)} -m odradek")


@pytest.fixture
def patient_on_path(tmp_path: Path, shell: Shell) -> dict[str, str]:
    """The same, and the command asks the broker for as long as the other tests do."""
    (tmp_path / "patient.py").write_text(PATIENT_COMMAND)
    return _with_command(
        tmp_path, shell, f"{shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'patient.py'))}"
    )


def _with_command(folder: Path, shell: Shell, executed: str) -> dict[str, str]:
    command = folder / "bin" / "odradek"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {executed} "$@"\n')
    command.chmod(0o755)
    environment = {**shell.environment, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    del environment["ODRADEK_BOOTSTRAP"]
    return environment


@contextmanager
def typing(environment: dict[str, str]) -> Iterator[Callable[[str, str], str]]:
    """A bash with a terminal: type some keys, and what it shows until an expected text is there."""
    master, terminal = pty.openpty()
    plain = {**environment, "TERM": "dumb", "INPUTRC": os.devnull, "PS1": "ready> "}
    command = ["bash", "--norc", "--noprofile", "-i"]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=plain, start_new_session=True
    ) as process:
        os.close(terminal)

        def type_keys(keys: str, expected: str) -> str:
            os.write(master, keys.encode())
            shown, deadline = "", time.monotonic() + BASH_SECONDS_MAX
            while expected not in shown and time.monotonic() < deadline:
                if select.select([master], [], [], 0.2)[0]:
                    shown += os.read(master, 4096).decode(errors="replace")
            assert expected in shown, shown
            return shown

        try:
            yield type_keys
        finally:
            process.kill()
            os.close(master)


@pytest.mark.integration
def test_bash_completes_words_with_colons_and_equals_signs(
    patient_on_path: dict[str, str], bootstrap: str, topic: str
) -> None:
    with typing(patient_on_path) as bash:
        bash('eval "$(odradek completion bash)"; echo do""ne\n', "done")
        bash(f"odradek -b {bootstrap} topics describe {topic[:-3]}\t", f"describe {topic} ")
        bash(f"\x15odradek -b {bootstrap} groups delete-offsets g --topic {topic}:0,1,\t", f"{topic}:0,1,2 ")
        bash("\x15odradek topics create t --config retention.m\t1", "--config retention.ms=1")


@pytest.mark.integration
def test_a_silent_broker_ends_completion_in_time(on_path: dict[str, str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = f"odradek -b 127.0.0.1:{silent.getsockname()[1]} topics describe "
        done = subprocess.run(
            ["odradek"],
            env={**on_path, "COMP_LINE": line, "_ODRADEK_COMPLETE": "bash_complete"},
            capture_output=True,
            timeout=COMPLETION_SECONDS_MAX + BASH_SECONDS_MAX,
            check=False,
        )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("shell", "before", "after"),
    [
        (FishComplete, 'string split "," $completion', 'string split --max 1 "," $completion'),
        (ZshComplete, "compadd -U -V unsorted -a completions\n", "-S '' -- ${(M)completions:#*=}\n"),
    ],
)
def test_the_lines_of_clicks_scripts_that_are_changed_are_there(
    invoke: Callable[..., Result], shell: type[ShellComplete], before: str, after: str
) -> None:
    assert before in shell.source_template
    printed = invoke("completion", shell.name).output
    assert before not in printed
    assert after in printed
