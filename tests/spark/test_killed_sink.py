"""A Spark driver that copies by the transactional sink dies by SIGKILL at a step; the next copies each record once.

One step is in the suite. `make sink-kills` tries all of them, some minutes each on a busy machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.records import send
from tests.spark.test_sink_writing import committed
from tests.support.broker_process import CHECKOUT
from tests.support.java import JavaUnavailableError, connector_jars
from tests.support.peers import CreateTopic, skip_or_fail
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]

IS_ALL = os.environ.get("ODRADEK_SINK_KILLS") == "all"
STEPS = ("task-0", *(("flushed", "plan", "task-1", "task-2", "batch") if IS_ALL else ()))
RECORDS = 900


def copy(bootstrap: str, origin: str, target: str, folder: Path, step: str = "") -> int:
    """The exit code of a driver that copies, and dies at `step` if there is one."""
    command = [sys.executable, "-m", "tests.spark.copying_stream", bootstrap, origin, target, str(folder)]
    with (folder / "driver.log").open("a") as log:
        process = subprocess.Popen(
            [*command, str(RECORDS), *([step] if step else [])],
            stdout=log,
            stderr=log,
            cwd=CHECKOUT,
            start_new_session=True,
        )
        return process.wait(280)


@pytest.mark.parametrize("step", STEPS)
def test_a_sink_that_dies_at_a_step_copies_each_record_once(
    bootstrap: str, create_topic: CreateTopic, tmp_path: Path, step: str
) -> None:
    try:
        connector_jars()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    origin, target = create_topic(3), create_topic(3)
    values = numbered(RECORDS)
    send(bootstrap, origin, values, 3)
    log = tmp_path / "driver.log"
    assert copy(bootstrap, origin, target, tmp_path, step) == -signal.SIGKILL, log.read_text()[-4000:]
    assert len(committed(bootstrap, target)) < RECORDS
    assert copy(bootstrap, origin, target, tmp_path) == 0, log.read_text()[-4000:]
    assert committed(bootstrap, target) == values
