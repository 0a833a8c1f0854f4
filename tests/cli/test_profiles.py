"""Where the connection's settings come from: options, environment, client.properties, profiles, defaults."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared import profiles
from odradek.cli.shared.connection_settings import GivenOptions, resolve
from odradek.client.properties import (
    API_TIMEOUT_MS,
    CLIENT_PROPERTIES,
    CONNECT_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    read_client_properties,
)
from odradek.foundation.errors import SettingError
from tests.support.broker_process import free_port

Invoke = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(no_profiles: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the test's own profiles."""
    monkeypatch.delenv("ODRADEK_BOOTSTRAP", raising=False)
    return no_profiles / "odradek"


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def origins(invoke: Invoke, *arguments: str) -> dict[str, Any]:
    shown = json.loads(ok(invoke("profile", "show", "--output", "json", *arguments)))
    return {key: (one["value"], one["source"]) for key, one in shown["properties"].items()}


def test_each_value_comes_from_the_first_that_gives_it(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=from-file\n")
    of_profile = ("--set", "client.id=ana", "--set", "metadata.max.age.ms=7")
    ok(invoke("profile", "create", "one", "--bootstrap", "profile:1", *of_profile))
    assert origins(invoke)["bootstrap.servers"] == ("profile:1", "profile 'one'")
    given = ["--command-config", str(file)]
    shown = origins(invoke, *given)
    assert shown["bootstrap.servers"] == ("file:1", str(file))
    assert shown["client.id"] == ("from-file", str(file))
    assert shown["metadata.max.age.ms"] == ("7", "profile 'one'")
    assert shown["request.timeout.ms"] == ("30000", "default")
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "environment:1")
    assert origins(invoke, *given)["bootstrap.servers"] == ("environment:1", "$ODRADEK_BOOTSTRAP")
    shown = origins(invoke, *given, "-b", "option:1", "--timeout", "2")
    assert shown["bootstrap.servers"] == ("option:1", "--bootstrap")
    assert shown["request.timeout.ms"] == shown["default.api.timeout.ms"] == ("2000", "--timeout")
    assert shown["socket.connection.setup.timeout.ms"] == ("2000", "--timeout")


def test_what_a_verb_says_goes_before_what_precedes_it(invoke: Invoke) -> None:
    result = invoke("-b", "first:1", "profile", "show", "-b", "second:1", "--output", "json")
    assert json.loads(result.stdout)["properties"]["bootstrap.servers"]["value"] == "second:1"


def test_a_profile_is_made_chosen_changed_and_deleted(
    invoke: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(invoke("profile", "create", "one", "-b", "one:1", "--timeout", "3"))
    ok(invoke("profile", "create", "two", "--profile", "one", "-b", "two:1"))
    listed = json.loads(ok(invoke("profile", "list", "-o", "json")))
    assert [(p["name"], p["is_current"], p["bootstrap"]) for p in listed] == [
        ("one", False, "one:1"),
        ("two", True, "two:1"),
    ]
    assert origins(invoke)["request.timeout.ms"] == ("3000", "profile 'two'"), "copied from the first"
    ok(invoke("profile", "use", "one"))
    assert origins(invoke)["bootstrap.servers"][0] == "one:1"
    assert origins(invoke, "two")["bootstrap.servers"][0] == "two:1"
    monkeypatch.setenv("ODRADEK_PROFILE", "two")
    assert origins(invoke)["bootstrap.servers"][0] == "two:1"
    assert origins(invoke, "--profile", "one")["bootstrap.servers"][0] == "one:1"
    monkeypatch.delenv("ODRADEK_PROFILE")
    ok(invoke("profile", "set", "client.id= a\\b", "--unset", "request.timeout.ms"))
    shown = origins(invoke)
    assert shown["client.id"] == ("a\\b", "profile 'one'")
    assert shown["request.timeout.ms"] == ("30000", "default")
    ok(invoke("profile", "delete", "one"))
    assert origins(invoke)["bootstrap.servers"] == ("127.0.0.1:9092", "default")
    ok(invoke("profile", "use", "two"))
    ok(invoke("profile", "use", "--none"))
    assert profiles.current() is None
    assert sorted(path.name for path in home.rglob("*")) == ["profiles", "two.properties"]


def test_only_the_owner_can_read_profiles(invoke: Invoke, home: Path) -> None:
    before = os.umask(0)
    try:
        ok(invoke("profile", "create", "one", "-b", "one:1"))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.rglob("*"))}
    assert modes == {"odradek": 0o700, "profiles": 0o700, "one.properties": 0o600, "current-profile": 0o600}


def test_without_xdg_config_home_it_is_dot_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for wrong in ("", "relative/path"):
        monkeypatch.setenv("XDG_CONFIG_HOME", wrong)
        assert profiles.directory() == tmp_path / ".config" / "odradek"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["use", "nope"], ExitCode.NOT_FOUND, "no profile 'nope'; there are: one"),
        (["show", "nope"], ExitCode.NOT_FOUND, "no profile 'nope' (named by --profile)"),
        (["delete", "nope"], ExitCode.NOT_FOUND, "no profile 'nope'"),
        (["create", "one", "-b", "x:1"], ExitCode.EXISTS, "a profile 'one' already"),
        (["create", "../x", "-b", "x:1"], ExitCode.USAGE, "cannot name a profile"),
        (["create", "x"], ExitCode.USAGE, "nothing to keep"),
        (["create", "x", "-b", "http://x"], ExitCode.USAGE, "is a URL"),
        (["create", "x", "--set", "bootstrap.server=x:1"], ExitCode.USAGE, "did you mean bootstrap.servers?"),
        (["create", "x", "--set", "sasl.mechanism=PLAIN"], ExitCode.USAGE, "which uses none of them"),
        (["create", "x", "--set", "request.timeout.ms=0"], ExitCode.USAGE, "at least 1"),
        (["set"], ExitCode.USAGE, "nothing to change"),
        (["set", "--unset", "client.id"], ExitCode.USAGE, "has no client.id; it has: bootstrap.servers"),
        (["use"], ExitCode.USAGE, "or --none"),
    ],
)
def test_what_cannot_be_is_said(invoke: Invoke, arguments: list[str], code: int, words: str) -> None:
    ok(invoke("profile", "create", "one", "-b", "one:1"))
    result = invoke("profile", *arguments)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert profiles.names() == ["one"]


def test_a_profile_that_the_environment_names_and_is_not_there(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_PROFILE", "gone")
    result = invoke("topics", "list")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "no profile 'gone' (named by $ODRADEK_PROFILE)" in result.stderr


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI cannot be used"),
        ("security.protocol=PLAINTEXT", "which uses none of them"),
        ("security.protocol=TLS", "must be one of"),
        ("ssl.x=1", "does not have: ssl.x"),
    ],
)
def test_a_file_that_promises_what_is_not_there_is_refused(
    invoke: Invoke, tmp_path: Path, entry: str, words: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=127.0.0.1:1\nsasl.jaas.config=hidden-password\n{entry}\n")
    result = invoke("topics", "list", "--command-config", str(file))
    assert result.exit_code == ExitCode.USAGE
    assert words in result.stderr
    assert "hidden-password" not in result.stderr


def test_plaintext_promises_nothing() -> None:
    assert read_client_properties({"security.protocol": "PLAINTEXT"}, source="f").warnings == ()


def test_keys_without_effect_are_a_warning_each(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers=127.0.0.1:{free_port()}\nrequest.timout.ms=1\nacks=all\nretries=3\nxyzzy=1\n"
    )
    result = invoke("topics", "list", "--command-config", str(file))
    assert result.exit_code == ExitCode.CONNECTION
    assert f"(the address is from {file})" in result.stderr
    assert [line.partition(f"{file}: ")[2] for line in result.stderr.splitlines()[:4]] == [
        "request.timout.ms is not a client property and has no effect; did you mean request.timeout.ms?",
        "acks has no effect; use `odradek produce --acks`",
        "retries has no effect: it is a property of Kafka's clients that odradek does not use",
        "xyzzy is not a client property and has no effect",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"request.timeout.ms=soon\n", "request.timeout.ms is 'soon'"),
        (b"bootstrap.servers=http://x\n", "bootstrap.servers: 'http://x' is a URL"),
        (b"client.id=\xff\n", "not UTF-8"),
        (b"#" * (1 << 21), "larger than"),
        (b"client.id=\\u12\n", "line 1"),
    ],
)
def test_a_file_that_cannot_be_read(invoke: Invoke, tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    result = invoke("topics", "list", "--command-config", str(file))
    assert result.exit_code == ExitCode.USAGE
    assert str(file) in result.stderr
    assert words in result.stderr


def test_a_file_that_is_not_there(invoke: Invoke) -> None:
    result = invoke("topics", "list", "--command-config", "/nowhere/x")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "--command-config /nowhere/x: there is no such file" in result.stderr


def test_the_environment_is_named_when_its_address_is_wrong(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "http://x")
    result = invoke("topics", "list")
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr.startswith("odradek: $ODRADEK_BOOTSTRAP: 'http://x' is a URL")
    assert "--bootstrap" not in result.stderr
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    result = invoke("topics", "list")
    assert result.exit_code == ExitCode.CONNECTION
    assert "(the address is from $ODRADEK_BOOTSTRAP)" in result.stderr
    assert "--bootstrap" not in result.stderr


def test_the_environment_before_a_profile_that_was_named_is_said(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok(invoke("profile", "create", "one", "-b", "one:1"))
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "elsewhere:1")
    assert resolve(GivenOptions()).warnings == (), "the profile in use was chosen some time before"
    (warning,) = resolve(GivenOptions(profile="one")).warnings
    assert warning == ("$ODRADEK_BOOTSTRAP goes before profile 'one': the brokers are elsewhere:1, not one:1")
    assert resolve(GivenOptions(profile="one", bootstrap="x:1")).warnings == ()


def test_properties_reach_the_client(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=5\nclient.id=x\nsocket.connection.setup.timeout.ms=6\n")
    settings = resolve(GivenOptions(command_config=str(file)))
    assert (settings.milliseconds(REQUEST_TIMEOUT_MS), settings.milliseconds(API_TIMEOUT_MS)) == (5, 5)
    assert (settings.client_id, settings.milliseconds(CONNECT_TIMEOUT_MS)) == ("x", 6)
    file.write_text("request.timeout.ms=5\ndefault.api.timeout.ms=50\n")
    assert resolve(GivenOptions(command_config=str(file))).milliseconds(API_TIMEOUT_MS) == 50


def test_every_default_is_a_value_that_is_allowed() -> None:
    defaults = {key: one.default_text or "" for key, one in CLIENT_PROPERTIES.items()}
    assert read_client_properties(defaults, source="defaults").values == defaults
    with pytest.raises(SettingError):
        read_client_properties({"security.protocol": "TLS"}, source="f")


def test_a_folder_of_profiles_that_cannot_be_made_is_named(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file))
    result = invoke("profile", "create", "one", "--bootstrap", "b:1")
    assert result.exit_code == ExitCode.FAILED
    assert result.output == f"odradek: {file}/odradek: Not a directory\n"


def test_where_no_profile_is_the_error_says_how_to_make_one(invoke: Invoke) -> None:
    result = invoke("profile", "use", "one")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert result.output == "odradek: there is no profile 'one'; `odradek profile create NAME` makes one\n"
