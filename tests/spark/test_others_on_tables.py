"""What other programs do to a table: a position is never lost without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import ExitCode
from tests.spark.records import send
from tests.spark.tables import logged, pipeline, stored, table
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


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


def test_an_iceberg_table_keeps_its_record_until_all_of_it_is_expired(
    spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, output = create_topic(2), f"lake.others.{unique.replace('-', '_')}"
    load = ("load", "--topic", topic, "--bootstrap", bootstrap, "--output", output, "--format", "iceberg")
    expire = (
        f"CALL lake.system.expire_snapshots(table => '{output.removeprefix('lake.')}', "
        "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1)"
    )
    update = f"UPDATE {output} SET value = CAST('changed' AS BINARY) WHERE partition = 0 AND offset = 1"
    send(bootstrap, topic, numbered(30), 2)
    assert pipeline(*load).summary["rows"] == 30
    spark.sql(update)
    assert pipeline(*load).summary["kind"] == "refresh"
    spark.sql(expire)
    nothing = pipeline(*load)
    assert (nothing.code, nothing.summary["run"]) == (ExitCode.OK, None)
    spark.sql(update)
    spark.sql(expire)
    assert pipeline(*load).code == ExitCode.RECORD_LOST
    assert "no snapshot that is left has a record" in capsys.readouterr().err
