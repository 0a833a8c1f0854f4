"""Wrong use, help, exit codes and completion: what needs no broker."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

import odradek
from odradek import __version__
from odradek.cli.exit_codes import MEANINGS, ExitCode, exit_code_for
from odradek.cli.main import VERBS, command_line
from odradek.client.errors import ClientTimeout, ConnectionFailed, NoSuchBroker, UnsupportedByBroker
from odradek.foundation import errors
from tests.support.broker_process import free_port

Invoke = Callable[..., Result]


def leaves(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every verb with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaves(inner, (*path, name))
    else:
        yield path, command


LEAVES = dict(leaves(command_line))


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_verb_has_help_with_examples(invoke: Invoke, words: tuple[str, ...]) -> None:
    result = invoke(*words, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output
    for parameter in LEAVES[words].params:
        assert (
            isinstance(parameter, click.Argument)
            or getattr(parameter, "help", None)
            or parameter.name
            in ("linger_ms", "batch_bytes", "compression", "acks", "isolation", "records", "fetch_bytes")
        ), f"{words}: {parameter.name} has no help"


def examples() -> Iterator[list[str]]:
    """The command lines of all the examples in the help, one `odradek …` each."""
    for command in LEAVES.values():
        text = (command.help or "").replace("\\\n", " ")
        for line in text.splitlines():
            for part in line.split("|"):
                match = re.match(r'\s*(?:eval "\$\()?odradek (.*?)(?:\)"|  +\S.*|>.*)?$', part)
                if match:
                    yield shlex.split(match[1])


@pytest.mark.parametrize("arguments", list(examples()), ids=" ".join)
def test_every_example_is_a_command_that_can_be_read(
    arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    command: click.Command = command_line
    context = click.Context(command)
    rest = list(arguments)
    while isinstance(command, click.Group):
        inner = command.get_command(context, rest.pop(0))
        assert inner is not None, arguments
        command = inner
    if "--file" in rest:
        file = tmp_path_factory.mktemp("file") / "orders.jsonl"
        file.write_text("")
        rest[rest.index("--file") + 1] = str(file)
    command.make_context("odradek", rest).close()


def test_the_verbs_are_all_there() -> None:
    assert set(VERBS) == {
        "start",
        "stop",
        "running",
        "broker",
        "controller",
        "cluster",
        "mirror",
        "doctor",
        "console",
        "top",
        "support-bundle",
        "status",
        "topics",
        "groups",
        "configs",
        "acls",
        "audit-access",
        "users",
        "queues",
        "quotas",
        "brokers",
        "reassign",
        "produce",
        "consume",
        "dump-log",
        "perf",
        "transactions",
        "profile",
        "completion",
        "help",
    }


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").output == f"odradek {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topcs"], "Did you mean 'topics'?"),
        (
            ["configs", "delete", "topic", "t", "retention.ms"],
            "No such command 'delete'. Did you mean 'unset'?",
        ),
        (["configs", "describe", "broker", "one"], "'one' is not the id of a broker: give its number"),
        (["configs", "set", "broker", "all", "a=b"], "or 'default' for the common default of all brokers"),
        (["configs", "unset", "broker", "b1", "log.retention.ms"], "is not the id of a broker"),
        (["configs", "get", "topic", "t"], "Did you mean 'describe'?"),
        (["topics", "set", "t"], "Did you mean 'alter'?"),
        (["users", "create", "alice"], "Did you mean 'set'?"),
        (["acls", "delete"], "Did you mean 'remove'?"),
        (["quotas", "add"], "Did you mean 'set'?"),
        (["profile", "describe"], "Did you mean 'show'?"),
        (["queues", "forget", "q", "t"], "A topic is given by an option: --topic t"),
        (["queues", "peek", "q", "t", "u"], "A topic is given by an option: --topic t --topic u"),
        (["groups", "delete-offsets", "g", "t"], "A topic is given by an option: --topic t"),
        (["produce", "t", "u"], "Got unexpected extra argument (u)"),
        (["topics", "list", "--nope"], "No such option"),
        (["topics", "create"], "Missing argument"),
        (["topics", "create", "t", "--config", "x"], "is not of the form KEY=VALUE"),
        (["topics", "alter", "t"], "nothing to alter"),
        (["consume", "t", "--from-beginning", "--offset", "3"], "give one of"),
        (["consume", "t", "--from", "yesterday"], "is not a time; write it like 2026-03-01T12:00:00 (UTC)"),
        (["consume", "t", "--group", "g", "--offset", "1"], "a group decides where to read"),
        (["topics", "create", ""], "Invalid value for 'TOPIC…': it is empty; give a name."),
        (["topics", "create", "t", ""], "it is empty; give a name."),
        (["produce", ""], "it is empty; give a name."),
        (["consume", ""], "it is empty; give a name."),
        (["consume", "t", "--group", ""], "Invalid value for '-g' / '--group': it is empty"),
        (["consume", "t", "--share-group", ""], "Invalid value for '--share-group': it is empty"),
        (["groups", "describe", ""], "it is empty; give a name."),
        (["groups", "reset-offsets", "g", "--topic", "", "--to-latest"], "it is empty; give a name."),
        (["queues", "reset", "", "--topic", "t", "--to-latest"], "it is empty; give a name."),
        (["configs", "unset", "topic", "", "retention.ms"], "it is empty; give a name."),
        (["users", "describe", ""], "it is empty; give a name."),
        (["console", "--port", "70000"], "'70000' is not a whole number from 0 to 65535."),
        (["consume", "t", "-n", "x"], "'x' is not a whole number of 1 or more."),
        (["consume", "t", "--offset", "x"], "'x' is not a whole number."),
        (["produce", "t", "--rate", "0"], "'0' is not a number of more than 0."),
        (["topics", "list", "--timeout", "nan"], "'nan' is not a number of 0.001 or more."),
        (["consume", "t", "--partition", "x"], "is not a list of partitions"),
        (["consume", "t", "--format", "{nope}"], "is not a field of a record"),
        (["consume", "t", "--until", "now", "--follow"], "--until contradicts"),
        (["groups", "reset-offsets", "g", "--to-latest"], "--topic"),
        (["groups", "reset-offsets", "--topic", "t", "--to-latest"], "give a GROUP"),
        (["groups", "reset-offsets", "g", "--all-groups", "--topic", "t", "--to-latest"], "give a GROUP"),
        (["groups", "delete-offsets", "g"], "give --topic"),
        (["groups", "delete-offsets", "g", "--topic", "t", "--dry-run", "--execute"], "contradict"),
        (["groups", "delete"], "give a GROUP"),
        (["groups", "delete", "g", "--all-groups"], "give a GROUP"),
        (["groups", "describe", "--state", "--members"], "give one of"),
        (["groups", "describe", "g", "--all-groups"], "contradict"),
        (["groups", "list", "--state", "stable,idle"], "'idle' is not one of PreparingRebalance"),
        (["groups", "list", "--type", "modern"], "'modern' is not one of classic"),
        (["groups", "reset-offsets", "g", "--topic", "t"], "give the new position"),
        (["groups", "reset-offsets", "g", "--from-mirror", "a", "--to-latest"], "give the new position"),
        (["groups", "reset-offsets", "g", "--from-mirror", "a", "--from-file", "f"], "contradict"),
        (["groups", "reset-offsets", "--from-mirror", "a"], "give a GROUP"),
        (
            ["groups", "reset-offsets", "g", "--topic", "t", "--to-latest", "--to-earliest"],
            "give the new position",
        ),
        (
            ["groups", "reset-offsets", "g", "--all-topics", "--to-latest", "--dry-run", "--execute"],
            "contradict",
        ),
        (["groups", "reset-offsets", "g", "--all-topics", "--by-duration", "x"], "not a duration"),
        (["consume", "t", "--format", "{vlaue}"], "did you mean {value}?"),
        (
            ["consume", "t", "--format", "{key:x10}"],
            "{key:x10} has a layout that is not understood; after the colon",
        ),
        (["consume", "t", "--format", "{key} %s"], "the template mixes {key} with %s"),
        (["consume", "t", "-f", "%z"], "%z is not a token of kcat's"),
        (["consume", "t", "--json-values"], "--json-values needs --output json"),
        (["consume", "ord*["], "is not a regular expression"),
        (["consume", "ord.*", "--offset", "3"], "--offset needs a single topic"),
        (["produce", "t", "--json", "--key-separator", ":"], "--json lines"),
        (["acls", "add", "--topic", "t"], "--allow-principal"),
        (["acls", "add", "--allow-principal", "User:a"], "name a resource"),
        (
            ["acls", "add", "--allow-principal", "User:a", "--group", "g", "--operation", "write"],
            "no operation write",
        ),
        (["acls", "remove", "--topic", "t", "--operation", "read"], "--deny-principal"),
        (["quotas", "set", "producer_byte_rate=1"], "name whose quotas"),
        (["quotas", "set", "--user", "a", "--default-user", "producer_byte_rate=1"], "exclude each other"),
        (["quotas", "set", "--user", "", "producer_byte_rate=1"], "--default-user"),
        (["quotas", "set", "--user", "a", "producer_byte_rate=fast"], "the value of a quota is a number"),
        (["quotas", "remove"], "name whose quotas"),
        (["start", "--nope"], "No such option"),
        (["completion", "tcsh"], "bash"),
        ([], "Usage: odradek"),
    ],
)
def test_wrong_use_is_explained_and_ends_with_2(invoke: Invoke, arguments: list[str], words: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == ExitCode.USAGE
    assert words in result.output
    assert "Traceback" not in result.output


def takes_names(command: click.Command) -> bool:
    kinds = [one.type for one in command.params if isinstance(one, click.Argument)]
    return bool(kinds) and kinds[0] is click.STRING


@pytest.mark.parametrize("words", [words for words, one in LEAVES.items() if takes_names(one)], ids=" ".join)
def test_an_empty_name_is_wrong_use_of_every_verb(invoke: Invoke, words: tuple[str, ...]) -> None:
    assert invoke(*words, "").exit_code == ExitCode.USAGE


def test_no_broker_is_one_line_and_ends_with_4(invoke: Invoke) -> None:
    address = f"127.0.0.1:{free_port()}"
    result = invoke("--bootstrap", address, "topics", "list")
    assert result.exit_code == ExitCode.CONNECTION
    assert result.stderr == (
        f"odradek: nothing listens at {address}: connection refused; start a broker there, or correct the address\n"
    )
    assert "Traceback" in invoke("topics", "list", "--bootstrap", address, "--verbose").stderr


def test_an_address_that_is_none(invoke: Invoke) -> None:
    result = invoke("topics", "list", "--bootstrap", "a:b")
    assert result.exit_code == ExitCode.USAGE
    assert "--bootstrap: 'a:b'" in result.stderr
    assert "no port between" in result.stderr


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.UnknownTopicOrPartition("x"), ExitCode.NOT_FOUND),
        (errors.GroupIdNotFound("x"), ExitCode.NOT_FOUND),
        (NoSuchBroker("x"), ExitCode.NOT_FOUND),
        (FileNotFoundError("x"), ExitCode.NOT_FOUND),
        (errors.TopicAlreadyExists("x"), ExitCode.EXISTS),
        (errors.InvalidConfig("x"), ExitCode.REFUSED),
        (errors.NonEmptyGroup("x"), ExitCode.REFUSED),
        (ConnectionFailed("x"), ExitCode.CONNECTION),
        (ClientTimeout("x"), ExitCode.TIMEOUT),
        (errors.RequestTimedOut("x"), ExitCode.TIMEOUT),
        (errors.SettingError("x"), ExitCode.USAGE),
        (UnsupportedByBroker("x"), ExitCode.FAILED),
        (RuntimeError("x"), ExitCode.FAILED),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (BrokenPipeError(), ExitCode.OUTPUT_CLOSED),
    ],
)
def test_exit_codes(failure: BaseException, code: ExitCode) -> None:
    assert exit_code_for(failure) == code


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert command_line.epilog is not None
    for code in ExitCode:
        if 0 < code <= ExitCode.DAMAGED:
            assert f"{int(code)} " in command_line.epilog


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_odradek(invoke: Invoke, shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert "_ODRADEK_COMPLETE" in result.output


def test_errors_of_the_operating_system_name_the_file_in_words(invoke: Invoke, tmp_path: Path) -> None:
    missing = tmp_path / "plan.json"
    result = invoke("reassign", "verify", str(missing))
    assert result.exit_code == ExitCode.NOT_FOUND
    assert result.stderr == f"odradek: {missing}: No such file or directory\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_is_full_is_told(unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "wb") as full:
        done = as_process("completion", "bash", stdout=full.fileno())
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == b"odradek: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_stream_that_a_command_does_not_need_may_be_closed(closed: str) -> None:
    done = with_closed("profile list", closed)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("verb", ["profile list", "help", "completion bash", "profile list --output json"])
def test_an_output_that_the_shell_closed_is_an_error(verb: str) -> None:
    done = with_closed(verb, ">&-")
    assert done.stderr == b"odradek: stdout is closed, and this command needs it\n"
    assert done.returncode == ExitCode.FAILED
    assert with_closed(verb, "<&- >&- 2>&-").returncode == ExitCode.FAILED


def with_closed(verb: str, closed: str) -> subprocess.CompletedProcess[bytes]:
    command = f"{sys.executable} -m odradek {verb} {closed}"
    return subprocess.run(["sh", "-c", command], capture_output=True, env=environment(), check=False)


def as_process(*arguments: str, stdout: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "odradek", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment(), check=False)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(odradek.__file__).parents[1])}
