"""A Spark driver dies by SIGKILL during its stream; the next continues from the checkpoint, with each record once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.records import send, values_of
from tests.support.broker_process import CHECKOUT
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]


def driver(bootstrap: str, topic: str, folder: Path) -> subprocess.Popen[str]:
    """The stream's process, at the head of a process group that its JVM belongs to."""
    command = [sys.executable, "-m", "tests.spark.file_stream", bootstrap, topic, str(folder)]
    errors = (folder / "driver.log").open("a")
    with errors:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=CHECKOUT, start_new_session=True
        )


def test_a_killed_driver_loses_and_doubles_nothing(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(2)
    values = numbered(3000)
    send(bootstrap, topic, values[:2500], 2)
    with driver(bootstrap, topic, tmp_path) as first:
        assert first.stdout is not None
        printed = first.stdout.readline()
        os.killpg(first.pid, signal.SIGKILL)
    assert printed == "begun\n", (tmp_path / "driver.log").read_text()[-4000:]
    before = values_of(spark.read.parquet(str(tmp_path / "out")))
    assert 0 < len(before) < 2500, "it was to die in the middle"
    send(bootstrap, topic, values[2500:], 2, start=2500)
    with driver(bootstrap, topic, tmp_path) as second:
        assert second.stdout is not None
        try:
            lines = [second.stdout.readline(), second.stdout.readline()]
        finally:
            # Python and its JVM may take minutes to end on a busy machine, and have nothing left to do.
            os.killpg(second.pid, signal.SIGKILL)
    assert lines == ["begun\n", "done\n"], (tmp_path / "driver.log").read_text()[-4000:]
    assert values_of(spark.read.parquet(str(tmp_path / "out"))) == values
