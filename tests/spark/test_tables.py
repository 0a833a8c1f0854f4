"""Loads and replays into each format: rows are those of the log, and a zombie is fenced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import FencedError, PipelineExitCode
from odradek_pipeline.runs.steps import PLANNED
from tests.spark.records import send
from tests.spark.tables import OUTPUT_FORMATS, hooked, logged, pipeline, stored, table
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]


def place(output_format: str, folder: Path, unique: str) -> str:
    """Where a test's table is."""
    return f"lake.tests.{unique.replace('-', '_')}" if output_format == "iceberg" else str(folder / "table")


def spoil(spark: Any, output_format: str, output: str) -> None:
    """Another program merges values into offsets below 10 of partition 0, and rewrites the table's files."""
    name = output if output_format == "iceberg" else f"delta.`{output}`"
    spark.sql(
        f"MERGE INTO {name} old USING (SELECT 0 AS partition, CAST(id AS BIGINT) AS offset FROM range(10)) new "
        "ON old.partition = new.partition AND old.offset = new.offset "
        "WHEN MATCHED THEN UPDATE SET value = CAST('spoilt' AS BINARY)"
    )
    if output_format == "delta":
        spark.sql(f"OPTIMIZE {name}")
    else:
        catalog, _, rest = output.partition(".")
        spark.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => '{rest}', options => map('rewrite-all', 'true'))"
        )


@pytest.mark.parametrize("output_format", OUTPUT_FORMATS)
def test_a_table_follows_its_topic(
    output_format: str, spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, tmp_path: Path
) -> None:
    topic, output = create_topic(2), place(output_format, tmp_path, unique)
    at = ("--bootstrap", bootstrap, "--output", output, "--format", output_format)
    send(bootstrap, topic, numbered(60), 2)
    first = pipeline("load", "--topic", topic, *at)
    assert (first.code, first.summary["rows"]) == (PipelineExitCode.OK, 60), first
    send(bootstrap, topic, numbered(40), 2, start=60)
    # Another run does the same while this one is at work: this one is the zombie.
    others: list[int] = []

    def load_as_well(step: str) -> None:
        if step == PLANNED and not others:
            others.append(0)
            others[0] = pipeline("load", "--topic", topic, *at).summary["rows"]

    settings = {"bootstrap": bootstrap, "output": output, "format": output_format, "topic": topic}
    with pytest.raises(FencedError, match="run it again"):
        hooked("load", load_as_well, **settings)
    assert others == [40]
    assert stored(table(spark, output_format, output)) == logged(bootstrap, topic)
    if output_format != "parquet":
        spoil(spark, output_format, output)
        assert stored(table(spark, output_format, output)) != logged(bootstrap, topic)
        refreshed = pipeline("load", "--topic", topic, *at).summary
        assert (refreshed["kind"], refreshed["rows"]) == ("refresh", 0), "the record is on top again"
    # A range that splits files, then a run by its id.
    part = pipeline("replay", "--start", "0:5,1:40", "--stop", "0:35,1:41", *at)
    assert (part.code, part.summary["rows"], part.summary["offsets"]) == (PipelineExitCode.OK, 31, 31), part
    again = pipeline("replay", "--run", first.summary["run"], *at, "--reader", "odradek")
    assert (again.code, again.summary["rows"]) == (PipelineExitCode.OK, 60)
    assert stored(table(spark, output_format, output)) == logged(bootstrap, topic)
    send(bootstrap, topic, numbered(10), 2, start=100)
    assert pipeline("load", "--topic", topic, *at, "--reader", "odradek").summary["rows"] == 10
    assert stored(table(spark, output_format, output)) == logged(bootstrap, topic)
    kinds = [
        one["kind"] for one in pipeline("runs", "--output", output, "--format", output_format).summary["runs"]
    ]
    refresh = [] if output_format == "parquet" else ["refresh"]
    assert kinds == ["load", "replay", "replay", *refresh, "load", "load"]
