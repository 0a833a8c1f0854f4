"""docs/phrase-book.md: each command of Kafka's scripts, kcat and odradek does something, against one of our brokers.

Each column is played on a broker of its own, from top to bottom, as the page has it. Only the address is put in.
`rpk` is not to be had from a package registry, so its commands are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import CHECKOUT, Broker
from tests.support.java import JavaUnavailableError
from tests.support.kafka_scripts import write_scripts
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = CHECKOUT / "docs" / "phrase-book.md"
COMMAND_SECONDS_MAX = 60
RECORDS = 60


def commands(program: str) -> list[str]:
    """The page's commands that begin with `program`, in order."""
    _, _, tables = PAGE.read_text().partition("\n## Topics\n")
    rows = [line for line in tables.splitlines() if line.startswith("|")]
    cells = [cell for row in rows for cell in re.findall(r"`([^`]+)`", row)]
    return [cell for cell in cells if cell.startswith(program) and " " in cell]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with what the page takes for granted: topics, a group that has read half, files."""
    # Every client is a super user, so that the commands for ACLs have something to change.
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = Broker(tmp_path, settings={"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"})
    broker.start()
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
        run(f"odradek {arguments}", broker, tmp_path)
    yield broker
    broker.close()


def run(command: str, broker: Broker, folder: Path, *, scripts: Path | None = None) -> str:
    """What the command prints; AssertionError when it fails."""
    environment = {**os.environ, "ODRADEK_BOOTSTRAP": broker.bootstrap}
    environment["PYTHONPATH"] = str(CHECKOUT / "broker")
    path = [str(scripts)] if scripts else []
    environment["PATH"] = os.pathsep.join([*path, environment["PATH"]])
    odradek = f"{shlex.quote(sys.executable)} -P -m odradek"
    text = re.sub(r"^odradek\b", odradek, command)
    if scripts and "--bootstrap-server" not in text and "dump-log" not in text:
        text = re.sub(r"^(\S+)", rf"\1 {_address(text, broker)}", text)
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


def _address(command: str, broker: Broker) -> str:
    if command.startswith("kafka-producer-perf-test.sh"):
        return f"--producer-props bootstrap.servers={broker.bootstrap}"
    return f"--bootstrap-server {broker.bootstrap}"


def test_every_odradek_command_works(broker: Broker, tmp_path: Path) -> None:
    found = commands("odradek")
    assert len(found) > 35
    for command in found:
        printed = run(command, broker, tmp_path)
        assert "Error" not in printed, f"`{command}` printed\n{printed}"


@pytest.mark.java
def test_every_kafka_script_works(broker: Broker, tmp_path: Path) -> None:
    try:
        scripts = write_scripts(tmp_path / "bin")
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    found = commands("kafka-")
    assert len(found) > 25
    for command in found:
        printed = run(command, broker, tmp_path, scripts=scripts)
        failures = [line for line in printed.splitlines() if line.startswith(("Error", "Exception"))]
        assert not failures, f"`{command}` printed\n{printed}"


@pytest.mark.clients
def test_every_kcat_command_works(broker: Broker, tmp_path: Path) -> None:
    if not any((Path(folder) / "kcat").exists() for folder in os.environ["PATH"].split(os.pathsep)):
        pytest.skip("kcat is not installed: `apt-get install kcat`")
    found = commands("kcat")
    assert len(found) > 6
    for command in found:
        run(command, broker, tmp_path)
