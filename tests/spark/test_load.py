"""`odradek-pipeline load` into Parquet with a real broker and Spark: the table's rows are the log's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from odradek_pipeline.outputs.parquet.output import read_table
from tests.spark.records import send
from tests.spark.tables import logged, pipeline, stored
from tests.support.peers import CreateTopic
from tests.support.polling import SECONDS_MAX
from tests.support.samples import BASE_TIME_MS, numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]


def test_loads_go_on_where_the_table_ends(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic, output = create_topic(2), str(tmp_path / "table")
    load = ("load", "--bootstrap", bootstrap, "--topic", topic, "--output", output)
    send(bootstrap, topic, numbered(300), 2)
    first = pipeline(*load, "--records-per-task", "100")
    assert (first.code, first.summary["rows"], first.summary["files"]) == (PipelineExitCode.OK, 300, 4)
    assert [one["event"] for one in first.events][:3] == ["connected", "planned", "writing"]
    again = pipeline(*load)
    assert (again.code, again.summary["run"], again.summary["rows"]) == (PipelineExitCode.OK, None, 0)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS_MAX)
    send(bootstrap, topic, numbered(60), 3)
    second = pipeline(*load)
    assert [(one["partition"], one["start"], one["end"]) for one in second.summary["ranges"]] == [
        (0, 150, 170),
        (1, 150, 170),
        (2, 0, 20),
    ]
    assert stored(read_table(spark, output)) == logged(bootstrap, topic)
    runs = pipeline("runs", "--output", output).summary["runs"]
    assert [(one["number"], one["rows"], one["kind"]) for one in runs] == [(2, 60, "load"), (1, 300, "load")]


@pytest.mark.parametrize("reader", ["kafka", "odradek"])
def test_a_load_by_offsets_and_time(
    reader: str, spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, output = create_topic(2), str(tmp_path / "table")
    send(bootstrap, topic, numbered(100), 2)
    at = ("--bootstrap", bootstrap, "--output", output, "--reader", reader)
    load = ("load", "--topic", topic, *at, "--start", "0:10,1:20")
    assert pipeline(*load, "--stop", str(BASE_TIME_MS + 40_000)).summary["rows"] == 50
    assert pipeline(*load, "--stop", "0:45").summary["rows"] == 15
    wanted = {
        row: count
        for row, count in logged(bootstrap, topic).items()
        if (10 <= row.offset < 45, row.offset >= 20)[row.partition]
    }
    assert stored(read_table(spark, output)) == wanted


def test_what_does_not_exist_is_named(
    spark: Any, bootstrap: str, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "table")
    load = ("load", "--topic", unique, "--output", output)
    assert pipeline(*load, "--bootstrap", bootstrap).code == PipelineExitCode.NOT_FOUND
    assert f"there is no topic '{unique}'" in capsys.readouterr().err
    assert pipeline(*load, "--bootstrap", "127.0.0.1:1").code == PipelineExitCode.CONNECTION
    assert pipeline("runs", "--output", output).code == PipelineExitCode.NOT_FOUND
    assert pipeline(*load).code == PipelineExitCode.USAGE
    assert "no brokers are named: add --bootstrap" in capsys.readouterr().err
    assert not Path(output).exists()
