"""`odradek start NAME`, `stop` and `running`: a broker for each project, in the background."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.cluster.named import background_start
from odradek.cli.cluster.named.background_start import NamedStartFailed, start_named
from odradek.cli.cluster.named.named_broker import NamedBroker, RunningProcess, all_names
from odradek.cli.cluster.named.process import with_ports
from odradek.cli.cluster.start_options import StartArguments, command_line_of, parse
from odradek.cli.exit_codes import ExitCode
from odradek.foundation.client_limits import NAMED_BROKER_LOG_BYTES_MAX
from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import SettingError
from tests.cli.conftest import SOURCE, Shell
from tests.support.polling import wait_until

NO_OPTIONS = StartArguments()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of all names, of the test's own. What still runs in the end is killed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield tmp_path / "state" / "odradek" / "brokers"
    for name in all_names():
        process = NamedBroker(name).running_process()
        if process is not None:
            os.kill(process.pid, signal.SIGKILL)


class Terminal(Shell):
    """Runs commands as a user who has not named a broker yet."""

    def __init__(self) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        self.environment.pop("ODRADEK_BOOTSTRAP", None)

    def start_named(self, name: str, *options: str) -> str:
        """The address that the command sets for other commands."""
        line = self.run("start", name, *options)
        match = re.fullmatch(r"export ODRADEK_BOOTSTRAP=(127\.0\.0\.1:\d+)\n", line)
        assert match is not None, line
        return match[1]

    def rows(self, *options: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.json("running", *options)
        return rows


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


# --- without a process ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "-x", ".", "..", "../x", "a/b", "a b", "ä", "x" * 65, "x\n"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="cannot name a broker: use up to 64 letters"):
        NamedBroker(name)


def test_a_folder_in_place_of_a_name_says_where_folders_go() -> None:
    with pytest.raises(SettingError, match=r"a folder is named by --data \./data"):
        NamedBroker("./data")


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_an_absolute_state_home_the_home_directory_counts(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if home is None:
        monkeypatch.delenv("XDG_STATE_HOME")
    else:
        monkeypatch.setenv("XDG_STATE_HOME", home)
    assert NamedBroker("a").folder == tmp_path / ".local" / "state" / "odradek" / "brokers" / "a"


def test_every_option_is_passed_to_the_process() -> None:
    given = StartArguments(
        config="f",
        set=("a=1", "b=2"),
        data="d",
        listen=("h:1", "h:2"),
        advertise=("h:3",),
        admin="h:4",
        id="5",
        hints=True,
        console=True,
        log_level="debug",
        log_format="json",
    )
    assert all(given._asdict().values()), "each option has a value here"
    assert parse(command_line_of(given)) == given
    assert parse(command_line_of(NO_OPTIONS)) == NO_OPTIONS


def test_a_chosen_port_is_kept() -> None:
    endpoints = (Endpoint("A", "127.0.0.1", 7001, "PLAINTEXT"), Endpoint("B", "127.0.0.1", 7002, "PLAINTEXT"))
    given = StartArguments(listen=("A://127.0.0.1:0", "B://127.0.0.1:5000"))
    assert with_ports(given, endpoints).listen == ("A://127.0.0.1:7001", "B://127.0.0.1:5000")
    advertised = given._replace(advertise=("A://example.org:0",))
    assert with_ports(advertised, endpoints) == advertised, "the endpoints are not where it listens"


def test_what_is_kept_can_be_damaged_and_forgotten(state: Path, terminal: Terminal) -> None:
    broker = NamedBroker("orders")
    broker.prepare()
    broker.keep_start(StartArguments(data="/x", listen=("127.0.0.1:7",), set=("a=1",)))
    assert broker.read_kept_start() == StartArguments(data="/x", listen=("127.0.0.1:7",), set=("a=1",))
    (state / "orders" / "start.json").write_text('{"nonsense": 1}')
    terminal.run("start", "orders", code=ExitCode.USAGE)
    assert "`odradek stop orders --forget` removes it" in terminal.error
    assert terminal.run("stop", "orders", "--forget").startswith("orders  forgotten; its records are in")
    assert all_names() == [] and not broker.folder.exists()


def test_another_folder_is_not_taken_for_a_kept_name(terminal: Terminal, tmp_path: Path) -> None:
    broker = NamedBroker("orders")
    broker.prepare()
    broker.keep_start(StartArguments(data=str(tmp_path / "a"), listen=("127.0.0.1:7",)))
    terminal.run("start", "orders", "--data", str(tmp_path / "b"), code=ExitCode.USAGE)
    assert f"'orders' has its records in {tmp_path / 'a'}, not in {tmp_path / 'b'}" in terminal.error
    assert "choose another name, or `odradek stop orders --forget`" in terminal.error
    terminal.run("start", "billing", "--data", str(tmp_path / "a"), code=ExitCode.USAGE)
    assert "has the records of 'orders'" in terminal.error and "`odradek start orders`" in terminal.error
    assert not (tmp_path / "b").exists() and all_names() == ["orders"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--set", "num.partitions=many"), "num.partitions"),
        (("--set", "log.dirs=/elsewhere"), "log.dirs=/elsewhere is not for a broker with a name"),
        (("--data", " "), "--data is empty"),
        (("--config", "/no/such/file"), "/no/such/file"),
        (("--set", "zookeeper.connect=z:2181"), "runs a single node"),
    ],
)
def test_wrong_options_start_no_process(options: tuple[str, ...], words: str, terminal: Terminal) -> None:
    terminal.run("start", "orders", *options, code=ExitCode.USAGE)
    assert words in terminal.error and all_names() == []


def test_an_unknown_name_cannot_be_stopped(terminal: Terminal, state: Path) -> None:
    terminal.run("stop", "orders", code=ExitCode.NOT_FOUND)
    assert f"there are: none in {state}" in terminal.error
    broker = NamedBroker("orders")
    broker.prepare()
    broker.keep_start(NO_OPTIONS)
    terminal.run("stop", "ordesr", code=ExitCode.NOT_FOUND)
    assert "did you mean 'orders'?" in terminal.error
    for wrong in ((), ("orders", "--all")):
        terminal.run("stop", *wrong, code=ExitCode.USAGE)
        assert "give a NAME, or --all" in terminal.error


def test_a_process_that_has_another_ones_number_is_not_signalled(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = NamedBroker("orders")
    broker.prepare()
    broker.keep_start(NO_OPTIONS)
    broker.note_process(RunningProcess(os.getpid(), "127.0.0.1:7"))  # as after kill -9
    assert broker.was_killed and broker.running_process() is None
    assert terminal.run("stop", "orders") == "orders  does not run\n"
    assert terminal.rows() == [] and terminal.rows("--all")[0]["state"] == "killed"


def test_the_lock_can_be_asked_for_at_any_time() -> None:
    broker = NamedBroker("orders")
    broker.prepare()
    assert not broker.is_running
    lock = broker.hold()
    states = [broker.is_running]
    os.close(lock)
    states.append(broker.is_running)
    assert states == [True, False]


def test_a_stop_that_takes_too_long_says_what_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.cli.cluster.named.named_broker.NAMED_BROKER_STOP_SECONDS_MAX", 0.05)
    signalled: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *given: signalled.append(given))
    broker = NamedBroker("orders")
    broker.prepare()
    lock = broker.hold()
    broker.note_process(RunningProcess(4711, "127.0.0.1:7"))
    with pytest.raises(TimeoutError, match=r"did not stop within 0 s.*`kill -9 4711`"):
        broker.stop()
    assert signalled == [(4711, signal.SIGTERM)]
    os.close(lock)


def test_a_start_that_takes_too_long_says_where_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_start, "NAMED_BROKER_START_SECONDS_MAX", 0.05)
    broker = NamedBroker("orders")
    broker.prepare()
    lock = broker.hold()
    broker.note_process(RunningProcess(4711, None))
    with pytest.raises(NamedStartFailed, match=rf"its start continues: {broker.log} says how far"):
        start_named("orders", NO_OPTIONS, log_level=None, log_format=None)
    os.close(lock)


def test_the_verbs_complete_names() -> None:
    from tests.cli.test_completion import completed

    for name in ("orders", "other", "billing"):
        NamedBroker(name).prepare()
        NamedBroker(name).keep_start(NO_OPTIONS)
    assert completed("start", "o") == completed("stop", "o") == ["orders", "other"]
    assert completed("stop", "orders", "o") == ["other"]


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.integration
def test_a_broker_keeps_its_port_and_records_and_starts_once(terminal: Terminal, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    address = terminal.start_named("orders", "--data", str(project / "kafka"), "--set", "num.partitions=3")
    assert "'orders' is ready: " in terminal.error and f"records in {project / 'kafka'}" in terminal.error
    pid = terminal.rows()[0]["pid"]
    assert terminal.start_named("orders") == address and "'orders' runs already" in terminal.error
    again = terminal.start_named("orders", "--set", "num.partitions=3", "--listen", "127.0.0.1:0")
    assert again == address and terminal.rows()[0]["pid"] == pid
    terminal.run("start", "orders", "--set", "num.partitions=4", code=ExitCode.USAGE)
    assert "'orders' runs with other options (--set): `odradek stop orders` first" in terminal.error
    terminal.run("produce", "t", "--bootstrap", address, input="hello\n")
    assert terminal.run("stop", "orders") == "orders  stopped\n"
    assert terminal.run("stop", "orders") == "orders  does not run\n"
    assert terminal.run("running") == "it does not run; --all lists it\n"
    assert terminal.start_named("orders") == address
    assert terminal.run("consume", "t", "--from-beginning", "--bootstrap", address) == "hello\n"
    partitions = terminal.json("topics", "describe", "t", "--bootstrap", address)
    assert json.dumps(partitions).count('"leader"') == 3, "--set is kept"


@pytest.mark.integration
def test_a_killed_broker_starts_again(terminal: Terminal) -> None:
    address = terminal.start_named("orders")
    pid = terminal.rows()[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until("it has ended", lambda: not NamedBroker("orders").is_running)
    row = terminal.rows("--all")[0]
    assert (row["state"], row["pid"], row["bootstrap"]) == ("killed", None, None)
    assert terminal.start_named("orders") == address
    row = terminal.rows()[0]
    assert row["state"] == "running" and row["pid"] != pid
    assert "running" in terminal.run("running")


@pytest.mark.integration
def test_of_several_starts_at_once_one_starts_a_process(terminal: Terminal) -> None:
    def start(_: int) -> tuple[int, bytes]:
        with terminal.start("start", "orders") as process:
            out, _error = process.communicate()
            return process.returncode, out

    with ThreadPoolExecutor(3) as threads:
        ended = list(threads.map(start, range(3)))
    assert len(set(ended)) == 1 and ended[0][0] == 0, ended
    assert NamedBroker("orders").log.read_text().count("ready ") == 1


@pytest.mark.integration
def test_a_port_that_another_program_has_taken_is_named(terminal: Terminal) -> None:
    broker = NamedBroker("orders")
    broker.prepare()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        broker.keep_start(StartArguments(data=str(broker.folder / "data"), listen=(taken,)))
        terminal.run("start", "orders", code=ExitCode.FAILED)
        assert (
            taken in terminal.error
            and "in use" in terminal.error
            and "--listen 127.0.0.1:0" in terminal.error
        )
        assert terminal.start_named("orders", "--listen", "127.0.0.1:0") != taken
    assert broker.read_kept_start() is not None and taken not in str(broker.read_kept_start())


@pytest.mark.integration
def test_a_folder_that_a_broker_without_a_name_uses_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    with terminal.start("start", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0") as other:
        assert other.stdout is not None and other.stdout.readline().startswith(b"ready")
        terminal.run("start", "orders", "--data", str(tmp_path / "data"), code=ExitCode.FAILED)
    assert "'orders' did not start: another process uses the log directory" in terminal.error
    assert all_names() == [], "what did not serve is not kept"


@pytest.mark.integration
def test_a_long_log_is_followed_by_a_new_one(terminal: Terminal) -> None:
    broker = NamedBroker("orders")
    broker.prepare()
    with broker.log.open("wb") as log:
        log.truncate(NAMED_BROKER_LOG_BYTES_MAX + 1)
    terminal.start_named("orders")
    assert broker.log.stat().st_size < 10_000
    assert broker.log.with_suffix(".log.1").stat().st_size == NAMED_BROKER_LOG_BYTES_MAX + 1


@pytest.mark.integration
def test_all_are_stopped_and_forgotten(terminal: Terminal, state: Path) -> None:
    for name in ("a", "b"):
        terminal.start_named(name)
    documents = terminal.run("stop", "--all", "--forget", "--output", "json")
    assert documents.count("forgotten") == 2 and str(state / "b" / "data") in documents
    assert terminal.rows("--all") == []
    assert (state / "a" / "data").is_dir() and not (state / "a" / "start.json").exists()
