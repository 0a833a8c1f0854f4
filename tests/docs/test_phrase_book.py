"""docs/phrase-book.md: each command of Kafka's scripts, kcat and odradek does something, against one of our brokers.

Each column is played on a broker of its own, from top to bottom, as the page has it. Only the address is put in.
Kafka's tools run in one JVM and `odradek` in this process: the pages' tests start both as a shell does. `rpk` is not to
be had from a package registry, so its commands are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.cli.exit_codes import ExitCode
from tests.support.broker_process import CHECKOUT, Broker
from tests.support.command_line import run_command
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.kafka_scripts import CLASSES
from tests.support.kafka_tools import run_kafka_tool
from tests.support.page_stamps import run_if_changed
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]

PAGE = "docs/phrase-book.md"
COMMAND_SECONDS_MAX = 60
RECORDS = 60


def commands(program: str) -> list[str]:
    """The page's commands that begin with `program`, in order."""
    _, _, tables = (CHECKOUT / PAGE).read_text().partition("\n## Topics\n")
    rows = [line for line in tables.splitlines() if line.startswith("|")]
    cells = [cell for row in rows for cell in re.findall(r"`([^`]+)`", row)]
    return [cell for cell in cells if cell.startswith(program) and " " in cell]


@contextmanager
def prepared_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with what the page takes for granted."""
    # Every client is a super user, so that the commands for ACLs have something to change.
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = Broker(tmp_path, settings={"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"})
    broker.start()
    try:
        prepare(broker, tmp_path)
        yield broker
    finally:
        broker.close()


def prepare(broker: Broker, tmp_path: Path) -> None:
    """Files, topics, and groups that have read half."""
    (tmp_path / "lines.txt").write_text("".join(f"line {n}\n" for n in range(RECORDS)))
    (tmp_path / "keyed.txt").write_text("".join(f"key {n}:line {n}\n" for n in range(RECORDS)))
    (tmp_path / "offsets.json").write_text(
        '{"partitions": [{"topic": "orders", "partition": 0, "offset": 10}], "version": 1}'
    )
    (tmp_path / "before.csv").write_text("orders,0,5\n")
    for arguments in (
        "topics create orders --partitions 3",
        "topics create spare",
        "produce orders --file keyed.txt --key-separator :",
        f"consume orders --group billing --from-beginning --max {RECORDS // 2}",
        f"consume orders --group spare --from-beginning --max {RECORDS // 2}",
    ):
        run_here(f"odradek {arguments}", broker, tmp_path)


def run(command: str, broker: Broker, folder: Path) -> str:
    """What the command prints as a process; AssertionError when it fails."""
    environment = {**os.environ, "ODRADEK_BOOTSTRAP": broker.bootstrap}
    environment["PYTHONPATH"] = str(CHECKOUT / "broker")
    odradek = f"{shlex.quote(sys.executable)} -P -m odradek"
    text = re.sub(r"^odradek\b", odradek, command)
    if text.startswith("kcat"):
        text = text.replace("kcat", f"kcat -b {broker.bootstrap}", 1)
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"`{command}` ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def run_here(command: str, broker: Broker, folder: Path) -> str:
    """The same of a command of `odradek` that needs no shell, in this process."""
    environment = {**os.environ, "ODRADEK_BOOTSTRAP": broker.bootstrap}
    done = run_command(shlex.split(command)[1:], environment=environment, folder=folder)
    printed = (done.out + done.error).decode()
    # The disk of the machine may be nearly full, and `odradek status` says so.
    complaints = {line for line in printed.splitlines() if line.startswith("! ")}
    is_disk_alone = done.code == ExitCode.DEGRADED and all("is nearly full" in one for one in complaints)
    assert done.code == 0 or is_disk_alone, f"`{command}` ended with {done.code}\n{printed}"
    return printed


def run_tool(command: str, broker: Broker, folder: Path) -> str:
    """The same of a script of Kafka's, by the class that it starts. Files' names are those in `folder`."""
    command, _, file = command.partition(" < ")
    script, *words = shlex.split(command)
    arguments = [str(folder / word) if (folder / word).is_file() else word for word in words]
    if script == "kafka-producer-perf-test.sh":
        arguments = ["--producer-props", f"bootstrap.servers={broker.bootstrap}", *arguments]
    elif script != "kafka-dump-log.sh":
        arguments = ["--bootstrap-server", broker.bootstrap, *arguments]
    stdin = (folder / file).read_text() if file else None
    done = run_kafka_tool(CLASSES[script], *arguments, stdin=stdin)
    return done.stdout + done.stderr


def test_every_odradek_command_works(tmp_path: Path) -> None:
    found = commands("odradek")
    assert len(found) > 35
    with run_if_changed(PAGE, part="odradek"), prepared_broker(tmp_path) as broker:
        for command in found:
            needs_shell = "<(" in command
            printed = (run if needs_shell else run_here)(command, broker, tmp_path)
            assert "Error" not in printed, f"`{command}` printed\n{printed}"


@pytest.mark.java
def test_every_kafka_script_works(tmp_path: Path) -> None:
    try:
        kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    found = commands("kafka-")
    assert len(found) > 25
    with run_if_changed(PAGE, part="kafka"), prepared_broker(tmp_path) as broker:
        for command in found:
            printed = run_tool(command, broker, tmp_path)
            failures = [line for line in printed.splitlines() if line.startswith(("Error", "Exception"))]
            assert not failures, f"`{command}` printed\n{printed}"


@pytest.mark.clients
def test_every_kcat_command_works(tmp_path: Path) -> None:
    if not any((Path(folder) / "kcat").exists() for folder in os.environ["PATH"].split(os.pathsep)):
        pytest.skip("kcat is not installed: `apt-get install kcat`")
    found = commands("kcat")
    assert len(found) > 6
    with run_if_changed(PAGE, part="kcat"), prepared_broker(tmp_path) as broker:
        for command in found:
            run(command, broker, tmp_path)
