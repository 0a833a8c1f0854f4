"""manifests/systemd/odradek.service: what it starts serves, with the settings of the page, and stops cleanly.

systemd itself is not started: `systemd-analyze verify` reads the unit where that program is there. The command of
`ExecStart` runs as it stands, but for its paths and ports.
"""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.cli.main import command_line
from odradek.server.start import EXIT_SETTINGS
from tests.support.broker_process import CHECKOUT, READY_SECONDS_MAX
from tests.support.local_process import STOP_SECONDS_MAX

UNIT = CHECKOUT / "manifests" / "systemd" / "odradek.service"
PAGE = CHECKOUT / "docs" / "running-a-broker.md"
PROGRAM = "/opt/odradek/bin/odradek"


@pytest.fixture
def service() -> configparser.SectionProxy:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # keys keep their case
    unit.read_string(UNIT.read_text())
    return unit["Service"]


def settings_of_the_page() -> str:
    block = re.search(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None, "the page has no settings"
    return block[1]


@pytest.mark.thorough
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # It looks for the program and complains of its absence: one that is there takes its place.
    unit = tmp_path / "odradek.service"
    unit.write_text(UNIT.read_text().replace(PROGRAM, "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in verified.stderr.splitlines() if "odradek.service" in line]
    assert not complaints
    assert verified.returncode == 0, verified.stderr


def test_the_unit_and_the_command_line_agree(service: configparser.SectionProxy) -> None:
    program, verb, *arguments = shlex.split(service["ExecStart"])
    assert program == PROGRAM
    with command_line.make_context("odradek", [verb, *arguments], resilient_parsing=True) as context:
        command = command_line.get_command(context, verb)
        assert command is not None
        command.parse_args(
            command.make_context(verb, list(arguments), resilient_parsing=True), list(arguments)
        )
    assert service["RestartPreventExitStatus"] == str(EXIT_SETTINGS)


@pytest.mark.integration
def test_what_the_unit_starts_serves_and_stops_cleanly(
    service: configparser.SectionProxy, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    properties = tmp_path / "server.properties"
    text = (
        settings_of_the_page().replace("/var/lib/odradek", str(data)).replace("0.0.0.0:9092", "127.0.0.1:0")
    )
    assert str(data) in text
    properties.write_text(text)
    command = service["ExecStart"].replace(PROGRAM, f"{sys.executable} -P -m odradek")
    command = command.replace("/etc/odradek/server.properties", str(properties)).replace(":9644", ":0")
    broker = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None
        ready = broker.stdout.readline()
        assert ready.startswith("ready id=1 "), broker.communicate(timeout=READY_SECONDS_MAX)[1]
        assert "broker.example.org:9092" in ready
        broker.send_signal(signal.SIGTERM)
        _, complaints = broker.communicate(timeout=STOP_SECONDS_MAX)
    finally:
        broker.kill()
    assert broker.returncode == 0, complaints
    assert "ERROR" not in complaints
    assert (data / ".kafka_cleanshutdown").exists()
