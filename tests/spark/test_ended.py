"""Ctrl-C and SIGTERM in a load: the command ends with its JVM, and nothing but the answer is printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.records import send
from tests.support.broker_process import CHECKOUT
from tests.support.java import java_home
from tests.support.peers import CreateTopic
from tests.support.samples import numbered
from tests.support.spark_archive import spark_home

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]
SECONDS_MAX = 120


def start_load(bootstrap: str, topic: str, folder: Path) -> subprocess.Popen[str]:
    """A load in a process group of its own, as of a terminal. One thread works for long on tasks of one record."""
    command = ["load", "--bootstrap", bootstrap, "--topic", topic, "--output", str(folder / "table")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(CHECKOUT / part) for part in ("broker", "pipeline")),
        "JAVA_HOME": java_home(),
        "SPARK_HOME": spark_home(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "odradek_pipeline.entrypoint", *command),
            *("--reader", "odradek", "--master", "local[1]", "--records-per-task", "1"),
        ],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def group_members(group: int) -> list[str]:
    """The processes of the group that still run."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = [line.split(None, 2) for line in listed]
    return [row[-1] for row in rows if int(row[0]) == group and not row[1].startswith("Z")]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, PipelineExitCode.INTERRUPTED), (signal.SIGTERM, PipelineExitCode.TERMINATED)],
)
@pytest.mark.parametrize("moment", ["connected", "writing"])
def test_a_load_ends_with_its_jvm(
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    moment: str,
    number: signal.Signals,
    code: PipelineExitCode,
) -> None:
    topic = create_topic(2)
    send(bootstrap, topic, numbered(2000), 2)
    load = start_load(bootstrap, topic, tmp_path)
    try:
        assert load.stdout is not None
        for line in load.stdout:
            if json.loads(line)["event"] == moment:
                break
        # A terminal sends Ctrl-C to the whole group, `kill` its signal to one process.
        (os.killpg if number is signal.SIGINT else os.kill)(load.pid, number)
        _, error = load.communicate(timeout=SECONDS_MAX)
        assert load.returncode == code, error
        assert group_members(load.pid) == []
    finally:
        if group_members(load.pid):
            os.killpg(load.pid, signal.SIGKILL)
            load.wait()


def test_nothing_stands_around_the_answer(bootstrap: str, create_topic: CreateTopic, tmp_path: Path) -> None:
    topic = create_topic(1)
    send(bootstrap, topic, numbered(2), 1)
    load = start_load(bootstrap, topic, tmp_path)
    out, error = load.communicate(timeout=SECONDS_MAX)
    assert (load.returncode, error) == (0, "")
    assert [json.loads(line)["event"] for line in out.splitlines()][-1] == "summary"
