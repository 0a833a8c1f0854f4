"""`odradek users` against a running broker, before the first start, and what it refuses before it asks a broker."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.support.broker_process import Broker, free_port
from tests.support.polling import SECONDS_MAX

PASSWORD = "not to be seen"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.thorough
@pytest.mark.integration
def test_passwords_are_set_listed_and_deleted(shell: Shell, unique: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    given = ("--password-file", str(file))
    printed = shell.run(
        "users", "set", unique, *given, "--mechanism", "SCRAM-SHA-256", "--iterations", "8192"
    )
    assert f"set  user {unique}: SCRAM-SHA-256" in printed
    shell.run("users", "set", unique, "--password-file", "-", input=PASSWORD)
    assert PASSWORD not in printed + shell.error
    described = shell.json("users", "describe", unique)
    credentials = [
        {"mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert described == [{"user": unique, "credentials": credentials}]
    assert described[0] in shell.json("users", "list")
    shell.run("users", "delete", unique, "--mechanism", "SCRAM-SHA-256")
    assert shell.json("users", "describe", unique)[0]["credentials"] == credentials[1:]
    shell.run("users", "delete", unique)
    shell.run("users", "describe", unique, code=ExitCode.NOT_FOUND)
    shell.run("users", "delete", unique, code=ExitCode.NOT_FOUND)


@pytest.mark.integration
def test_the_first_user_logs_in_at_the_first_start(tmp_path: Path) -> None:
    """The node knows no other login than SCRAM, so its first user must be there before it runs."""
    address = f"127.0.0.1:{free_port()}"
    config = tmp_path / "server.properties"
    config.write_text(
        f"listeners=CLIENTS://{address}\n"
        "listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-512\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    shell = Shell(address)
    shell.environment["FIRST"] = "old"
    bootstrap = ("users", "bootstrap", "admin", "--config", str(config), "--password-variable", "FIRST")
    assert "set  user admin: SCRAM-SHA-512" in shell.run(*bootstrap)
    shell.environment["FIRST"] = PASSWORD
    assert "replaced  user admin" in shell.run(*bootstrap)
    client = tmp_path / "client.properties"
    client.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} required username="admin" password="{PASSWORD}";\n'
    )
    with shell.start("start", "--config", str(config)) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith(b"ready")
        listed = shell.json("users", "list", "--command-config", str(client))
        assert [one["user"] for one in listed] == ["admin"]
        shell.run(*bootstrap, code=ExitCode.FAILED)
        assert "in use" in shell.error
        broker.terminate()
        broker.wait(SECONDS_MAX)
    for path in (tmp_path / "data").iterdir():
        assert path.is_dir() or PASSWORD.encode() not in path.read_bytes()


def test_nothing_is_written_while_brokers_are_registered(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registration that a crash left behind is one of an earlier session, and is no obstacle."""
    broker = Broker(tmp_path)
    broker.start()
    broker.kill()
    monkeypatch.setenv("FIRST", PASSWORD)
    arguments = ("users", "bootstrap", "a", "--data", str(broker.data), "--password-variable", "FIRST")
    assert invoke(*arguments).exit_code == ExitCode.OK
    with sqlite3.connect(broker.data / "registry.sqlite") as registry:
        ((text,),) = registry.execute("SELECT data FROM node WHERE path = '/config/users/a'").fetchall()
    registry.close()
    assert b"stored_key" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["set", "a"], "there is no terminal"),
        (["set", "a", "--password-file", "x", "--password-variable", "X"], "exclude each other"),
        (["set", "a", "--password-variable", "NO_SUCH_VARIABLE"], "no such variable"),
        (["set", "a", "--password-file", "/nowhere/at/all"], "No such file"),
        (["set", "a", "--iterations", "100"], "is not a whole number from 4096 to 16384"),
        (["set", "a", "--mechanism", "PLAIN"], "SCRAM-SHA-512"),
        (["set", "a", "--password-file", "/dev/null"], "the password is empty"),
        (["set", "André", "--password-variable", "X"], "whose names are ASCII"),
        (["bootstrap", "a"], "name the registry"),
        (["bootstrap", "a", "--zookeeper", "127.0.0.1:1"], "every client of ZooKeeper"),
        (["bootstrap", "André", "--data", "x"], "whose names are ASCII"),
        (["bootstrap", "a", "--data", "x", "--zookeeper", "y"], "exclude each other"),
        (["describe"], "Missing argument"),
    ],
)
def test_wrong_use_is_refused(invoke: Callable[..., Result], arguments: list[str], words: str) -> None:
    result = invoke("users", *arguments)
    assert result.exit_code in (ExitCode.USAGE, ExitCode.FAILED)
    assert words in result.output
