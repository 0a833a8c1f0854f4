"""Drivers of loads, replays and streams die by SIGKILL: while data is written, and when the commit is there already."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from odradek_pipeline.runs.steps import WRITTEN
from tests.spark.killed_run import COMMIT_VISIBLE, DATA_VISIBLE
from tests.spark.killing import KILLED, PARTITIONS, RECORDS_PER_LOAD, Table
from tests.spark.tables import OUTPUT_FORMATS
from tests.support.peers import CreateTopic

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.thorough]


@pytest.mark.proof
@pytest.mark.parametrize("output_format", OUTPUT_FORMATS)
def test_killed_drivers_lose_and_double_nothing(
    output_format: str, spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, tmp_path: Path
) -> None:
    """Two kills of each kind of run for each format; `make pipeline-kills` has a hundred of each.

    A replay could mend what loads did, so they are checked before it. Streams mend nothing: what they or the replays
    did is seen at the end.
    """
    output = (
        f"lake.kills.{unique.replace('-', '_')}" if output_format == "iceberg" else str(tmp_path / "table")
    )
    lake = Path(spark.conf.get("spark.sql.catalog.lake.warehouse"))
    topic = create_topic(PARTITIONS)
    table = Table(spark, bootstrap, topic, output_format, output, tmp_path, lake)
    assert table.load(DATA_VISIBLE) == KILLED
    assert table.load(COMMIT_VISIBLE) == KILLED
    table.check()
    half = RECORDS_PER_LOAD // PARTITIONS
    assert table.replay(DATA_VISIBLE, 5, half + 5) == KILLED
    assert table.replay(COMMIT_VISIBLE, 5, half + 5) == KILLED
    assert table.stream(DATA_VISIBLE) == KILLED
    assert table.stream(COMMIT_VISIBLE, "odradek") == KILLED
    table.finish()


def test_a_driver_that_was_asleep_is_fenced_and_ctrl_c_ends_one_cleanly(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """It sleeps with its files written and nothing published, while another driver of its query continues.

    The next driver is at a terminal, where Ctrl-C reaches its JVM as well: its batch ends before the stream does.
    """
    lake = Path(spark.conf.get("spark.sql.catalog.lake.warehouse"))
    topic = create_topic(PARTITIONS)
    table = Table(spark, bootstrap, topic, "parquet", str(tmp_path / "table"), tmp_path, lake)
    assert table.zombie(WRITTEN) == PipelineExitCode.FENCED
    table.check()
    assert table.interrupted(signal.SIGINT) == PipelineExitCode.INTERRUPTED
    assert '"stopped_by": "SIGINT"' in (tmp_path / "driver.log").read_text()
    table.finish()
