"""The script of the chart's own test, run as its pod would run it, against a real broker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import Broker, free_port
from tests.support.helm import objects, template

pytestmark = pytest.mark.integration

QUICK = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    running = Broker(tmp_path / "broker", settings=QUICK)
    running.start()
    yield running
    running.close()


def run(folder: Path, bootstrap: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The pod's command with its environment and `variables`; /tmp is `folder`, the command line this checkout's."""
    (pod,) = [thing for thing in objects(template("odradek")) if thing["kind"] == "Pod"]
    (container,) = pod["spec"]["containers"]
    given = {variable["name"]: variable.get("value", str(uuid.uuid4())) for variable in container["env"]}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**given, "BOOTSTRAP": bootstrap, "PATH": path, "HOME": str(folder), **variables}
    shell = shutil.which("dash") or "/bin/sh"
    arguments = [text.replace("/tmp/", f"{folder}/") for text in container["args"]]
    command = [shell, *container["command"][1:], *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def _cli(bootstrap: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "odradek", *arguments, "--bootstrap", bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.thorough
def test_it_writes_and_reads_and_leaves_nothing_behind(tmp_path: Path, broker: Broker) -> None:
    done = run(tmp_path, broker.bootstrap, RECORDS="2500")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"wrote and read 2500 records through {broker.bootstrap}" in done.stdout
    assert "helm-test" not in _cli(broker.bootstrap, "topics", "list")
    assert "helm-test" not in _cli(broker.bootstrap, "groups", "list")


@pytest.mark.thorough
def test_it_can_run_again(tmp_path: Path, broker: Broker) -> None:
    for _ in range(2):
        assert run(tmp_path, broker.bootstrap).returncode == 0


@pytest.mark.thorough
def test_it_fails_where_no_broker_comes_up_and_says_where_it_looked(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    done = run(tmp_path, nowhere, PATIENCE_SECONDS="2")
    assert done.returncode == 1
    assert f"no topic could be made at {nowhere} within 2 s: is the Cluster Ready?" in done.stderr


@pytest.mark.thorough
def test_it_fails_when_what_was_read_differs(tmp_path: Path, broker: Broker) -> None:
    (tmp_path / "cmp").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "cmp").chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run(tmp_path, broker.bootstrap, PATH=path)
    assert done.returncode == 1
    assert "what was read is not what was written" in done.stderr
    assert "helm-test" not in _cli(broker.bootstrap, "topics", "list"), "it tidies up also when it fails"
