"""What other programs do to a table: a position is never lost without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.records import send
from tests.spark.tables import logged, pipeline, stored, table
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.thorough]


def test_a_delta_table_that_was_restored_goes_on_from_there(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, output = create_topic(2), str(tmp_path / "table")
    load = ("load", "--topic", topic, "--bootstrap", bootstrap, "--output", output, "--format", "delta")
    send(bootstrap, topic, numbered(30), 2)
    first = pipeline(*load).summary
    send(bootstrap, topic, numbered(20), 2, start=30)
    assert pipeline(*load).summary["rows"] == 20
    spark.sql(f"RESTORE TABLE delta.`{output}` TO VERSION AS OF {first['version']}")
    again = pipeline(*load).summary
    assert (again["rows"], again["number"]) == (20, 3), "Delta would skip a transaction with number 2"
    assert stored(table(spark, "delta", output)) == logged(bootstrap, topic)


def test_a_delta_table_keeps_its_record_until_its_log_is_cleaned(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, output = create_topic(2), str(tmp_path / "table")
    load = ("load", "--topic", topic, "--bootstrap", bootstrap, "--output", output, "--format", "delta")
    update = (
        f"UPDATE delta.`{output}` SET value = CAST('changed' AS BINARY) WHERE partition = 0 AND offset = 1"
    )

    def clean() -> None:
        """As Delta does after 30 days: a checkpoint of the newest version stays, and the commits before it go."""
        delta = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        delta.forTable(spark._jsparkSession, output).checkpoint()
        delta.clearCache()
        commits = sorted((tmp_path / "table" / "_delta_log").glob("[0-9]*[0-9].json"))
        assert len(commits) > 1
        for one in commits[:-1]:
            one.unlink()
            one.with_name(f".{one.name}.crc").unlink(missing_ok=True)

    send(bootstrap, topic, numbered(30), 2)
    assert pipeline(*load).summary["rows"] == 30
    spark.sql(update)
    assert pipeline(*load).summary["kind"] == "refresh"
    clean()
    nothing = pipeline(*load)
    assert (nothing.code, nothing.summary["run"]) == (PipelineExitCode.OK, None), capsys.readouterr().err
    spark.sql(update)
    clean()
    assert pipeline(*load).code == PipelineExitCode.RECORD_LOST
    assert "no commit in its history has a record" in capsys.readouterr().err


def test_an_iceberg_table_keeps_its_record_until_all_of_it_is_expired(
    spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, output = create_topic(2), f"lake.others.{unique.replace('-', '_')}"
    load = ("load", "--topic", topic, "--bootstrap", bootstrap, "--output", output, "--format", "iceberg")
    expire = (
        f"CALL lake.system.expire_snapshots(table => '{output.removeprefix('lake.')}', "
        "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1)"
    )
    merge = (
        f"MERGE INTO {output} old USING (SELECT 0 AS partition, CAST(1 AS BIGINT) AS offset) new "
        "ON old.partition = new.partition AND old.offset = new.offset "
        "WHEN MATCHED THEN UPDATE SET value = CAST('changed' AS BINARY)"
    )
    send(bootstrap, topic, numbered(30), 2)
    assert pipeline(*load).summary["rows"] == 30
    spark.sql(merge)
    assert pipeline(*load).summary["kind"] == "refresh"
    spark.sql(expire)
    nothing = pipeline(*load)
    assert (nothing.code, nothing.summary["run"]) == (PipelineExitCode.OK, None)
    spark.sql(merge)
    spark.sql(expire)
    assert pipeline(*load).code == PipelineExitCode.RECORD_LOST
    assert "no snapshot that is left has a record" in capsys.readouterr().err
