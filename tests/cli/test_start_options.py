"""`odradek start`: the short parser agrees with click's, and the settings come together in order."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import click
import pytest

import odradek
from odradek.cli.cluster.start import start
from odradek.cli.cluster.start_options import START_OPTIONS, StartArguments, parse
from odradek.cli.cluster.start_run import run, settings_of
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.hints import command_name, hints
from odradek.foundation.errors import SettingError


def test_click_has_the_same_options() -> None:
    ours = {f"--{option.name}" for option in START_OPTIONS}
    options = [parameter for parameter in start.params if isinstance(parameter, click.Option)]
    theirs = {name for option in options for name in option.opts}
    assert theirs == ours


def test_both_parsers_read_the_same() -> None:
    arguments = [
        "--set",
        "a=1",
        "--set=b=2",
        "--listen",
        "x:1",
        "--hints",
        "--id",
        "4",
        "--log-format",
        "json",
    ]
    ours = parse(arguments)
    assert ours is not None
    theirs = start.make_context("start", list(arguments)).params
    for name in ("config", "set", "data", "listen", "advertise", "admin", "id", "hints", "log_format"):
        assert getattr(ours, name) == theirs[name], name


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["x"], ["--set"], ["--hints=1"], ["--log-level", "loud"], ["--nope"]]
)
def test_what_is_not_plainly_right_is_left_to_click(arguments: list[str]) -> None:
    assert parse(arguments) is None


def settings(*arguments: str, config: str | None = None) -> dict[str, str]:
    parsed = parse(list(arguments))
    assert parsed is not None
    return dict(settings_of(parsed).given)


def test_defaults_serve_on_loopback() -> None:
    assert settings() == {"log.dirs": "./data", "listeners": "PLAINTEXT://127.0.0.1:9092"}


def test_set_wins_over_options_and_these_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/file\nnode.id=1\nnum.partitions=2\nlisteners=PLAINTEXT://file:1\n")
    merged = settings("--config", str(file), "--data", "/option", "--id", "2", "--set", "node.id=3")
    assert merged == {
        "log.dirs": "/option",
        "node.id": "3",
        "num.partitions": "2",
        "listeners": "PLAINTEXT://file:1",
    }


def test_a_listener_of_ones_own_name_is_plain_text() -> None:
    merged = settings(
        "--listen", "INSIDE://127.0.0.1:1", "--listen", "127.0.0.1:2", "--advertise", "INSIDE://h:1"
    )
    assert merged["listeners"] == "INSIDE://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"
    assert merged["listener.security.protocol.map"].endswith("INSIDE:PLAINTEXT")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "nonsense"), "--set nonsense"),
        (("--config", "/no/such/file"), "/no/such/file"),
        (("--listen", "127.0.0.1"), "listeners"),
        (("--id", "-7"), "node.id"),
        (("--data", ""), "--data is empty"),
        (("--set", "num.partitions=many"), "num.partitions"),
    ],
)
def test_a_mistake_is_named(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        settings(*arguments)


@pytest.mark.parametrize(
    "setting",
    [
        "process.roles=broker",
        "process.roles=controller",
        "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093",
        "controller.quorum.bootstrap.servers=a:9093,b:9093",
    ],
)
def test_the_file_of_a_node_of_kafkas_cluster_starts_no_broker_of_its_own(setting: str) -> None:
    arguments = parse(["--set", setting])
    assert arguments is not None
    with pytest.raises(SettingError, match=f"(?s){setting.partition('=')[0]}.*remove the key"):
        settings_of(arguments)


def test_the_file_of_a_single_node_of_kafka_is_taken() -> None:
    arguments = parse(
        ["--set", "process.roles=controller,broker", "--set", "controller.quorum.voters=1@a:9093"]
    )
    assert arguments is not None
    assert settings_of(arguments).text("process.roles") == "controller,broker"


def test_hints_name_the_broker_for_every_client() -> None:
    text = hints("example:1234")
    assert text.count("example:1234") == 6
    for client in ("kcat", "confluent_kafka", "spark.read"):
        assert client in text


def test_the_hints_for_python_are_python() -> None:
    blocks = {block.split("\n", 1)[0]: block for block in hints("example:1234").split("\n\n")}
    for title, block in blocks.items():
        if title.startswith(("# Python", "# Spark")):
            ast.parse(block)
            blocks[title] = ""
    assert list(blocks.values()).count("") == 2


def test_hints_name_a_command_that_the_shell_finds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, there = tmp_path / "here" / "odradek", tmp_path / "there" / "odradek"
    for file in (here, there):
        file.parent.mkdir()
        file.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(here), "start"])
    monkeypatch.setenv("PATH", str(here.parent))
    assert command_name() == "odradek"
    monkeypatch.setenv("PATH", str(there.parent))
    assert command_name() == str(here)
    monkeypatch.setattr("sys.argv", ["/somewhere/__main__.py", "start"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert command_name() == f"{sys.executable} -m odradek"


def test_the_short_road_imports_nothing_heavy() -> None:
    program = (
        "import sys, odradek.__main__, odradek.cli.cluster.start_options as o, odradek.cli.cluster.start_run as s\n"
        "s.settings_of(o.parse(['--set', 'num.partitions=2']))\n"
        "heavy = {'click', 'rich', 'aiohttp', 'prometheus_client', 'kio', 'odradek.client.client'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(odradek.__file__).parents[1])},
    )
    assert done.stdout.strip() == "[]"


def test_a_console_beside_a_broker_needs_a_listener_without_login(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.cli.cluster.start_run.configure_logging", lambda *_: None)
    arguments = StartArguments(
        console=True, data=str(tmp_path), listen=("SASL_PLAINTEXT://127.0.0.1:0",), log_level="error"
    )
    assert run(arguments) == ExitCode.USAGE
    assert "--console needs a listener without TLS and login" in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "nothing was started"
