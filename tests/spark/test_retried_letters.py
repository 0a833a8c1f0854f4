"""`dead-letters retry` with a real broker and Spark: after a change of the schema, letters become rows, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.dead_letters.commands import retry
from odradek_pipeline.errors import PipelineExitCode
from odradek_pipeline.work.worker import open_output
from tests.spark.letters import letters, send
from tests.spark.tables import PARQUET_BEFORE_PROOF, pipeline, table
from tests.support.peers import CreateTopic
from tests.support.samples import BASE_TIME_MS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]


@pytest.mark.parametrize("output_format", PARQUET_BEFORE_PROOF)
def test_letters_become_rows_once_after_a_change_of_the_schema(
    output_format: str,
    spark: Any,
    bootstrap: str,
    create_topic: CreateTopic,
    unique: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, schema = create_topic(1), tmp_path / "orders.ddl"
    output = f"lake.bad.{unique.replace('-', '_')}" if output_format == "iceberg" else str(tmp_path / "table")
    table_at = ("--bootstrap", bootstrap, "--output", output, "--format", output_format)
    decoding = ("--value-format", "json", "--value-schema", str(schema), "--reader", "odradek")
    # Every third has no id, and every seventh is no JSON.
    values = [b"{" if one % 7 == 6 else b"{}" if one % 3 == 2 else b'{"id": %d}' % one for one in range(20)]
    no_json = [one for one in range(20) if one % 7 == 6]
    missing = [one for one in range(20) if one % 3 == 2 and one % 7 != 6]
    send(bootstrap, topic, values)
    schema.write_text("id BIGINT NOT NULL")
    dead_letter = ("--on-bad-record", "dead-letter", "--bad-share-max", "1")
    loaded = pipeline("load", "--topic", topic, *table_at, *decoding, *dead_letter)
    assert loaded.summary["dead_letters"] == len(no_json) + len(missing), capsys.readouterr().err
    schema.write_text("id BIGINT, note STRING")
    retry_it = ("dead-letters", "retry", "--topic", f"{topic}.dlq", *table_at, *decoding)
    # A driver that dies between the table's commit and the group's: the letters still wait, and are rows already.
    with monkeypatch.context() as patched:
        patched.setattr(retry, "show_positions", lambda *_: 1 / 0)
        assert pipeline(*retry_it, "--commit-letters", "3").code == PipelineExitCode.FAILED
    capsys.readouterr()
    ran = pipeline(*retry_it, "--commit-letters", "5")
    assert ran.code == PipelineExitCode.OK, capsys.readouterr().err
    assert ran.summary["rows"] + ran.summary["already_rows"] == len(missing)
    assert ran.summary["already_rows"] > 0 and ran.summary["commits"] > 1
    rows = table(spark, output_format, output).orderBy("offset").collect()
    assert [(one.offset, one.id) for one in rows] == [
        (number, None if number in missing else number) for number in range(20) if number not in no_json
    ]
    assert all(bytes(one.value) == values[one.offset] for one in rows)
    assert {one.timestamp.timestamp() for one in rows} == {(BASE_TIME_MS + one.offset) / 1000 for one in rows}
    assert {len(one.headers) for one in rows} == {1}  # the record's own
    again = [one for one in letters(bootstrap, f"{topic}.dlq") if one.said("attempt") == "2"]
    assert {int(one.said("offset")) for one in again} == set(no_json)
    tiles = pipeline("audit", "tiles", *table_at)
    assert (tiles.code, tiles.summary["faults"]) == (PipelineExitCode.OK, []), (
        "what was retried is a row, the rest is dead"
    )
    assert (tiles.summary["rows"], tiles.summary["tiles"][0]["dead"]) == (20 - len(no_json), len(no_json))
    runs = open_output(spark, output_format, output).list_runs(None)
    assert [one.record.kind for one in runs] == ["retry"] * (len(runs) - 1) + ["load"]
    assert sum(one.rows or 0 for one in runs if one.record.kind == "retry") == len(missing)
    if output_format != "parquet":
        return  # what follows does not depend on the format
    # What stays bad is tried until its last attempt. After a kill one try may count twice.
    tries = [pipeline(*retry_it).summary for _ in range(3)]
    assert [one["rows"] for one in tries] == [0, 0, 0] and tries[-1]["letters"] == 0
    attempts = [(int(one.said("offset")), one.said("attempt")) for one in letters(bootstrap, f"{topic}.dlq")]
    assert {one for one in attempts if one[1] == "3"} == {(number, "3") for number in no_json}
    assert max(attempt for _, attempt in attempts) == "3"
    # A replay reads the origin again: every row once, and with the fields of the new schema.
    replayed = pipeline("replay", *table_at, *decoding, *dead_letter, "--start", "earliest")
    assert replayed.summary["dead_letters"] == len(no_json), capsys.readouterr().err
    rows = table(spark, output_format, output).orderBy("offset").collect()
    assert [one.offset for one in rows] == [number for number in range(20) if number not in no_json]


def test_letters_that_stay_bad_go_where_they_are_told_to(
    spark: Any,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, schema, output = create_topic(1), tmp_path / "orders.ddl", str(tmp_path / "table")
    send(bootstrap, topic, [b'{"id": 0}', b"{}", b'{"id": 2}'])
    table_at = ("--bootstrap", bootstrap, "--output", output, "--format", "parquet")
    decoding = ("--value-format", "json", "--value-schema", str(schema), "--reader", "odradek")
    schema.write_text("id BIGINT NOT NULL")
    dead_letter = ("--on-bad-record", "dead-letter", "--bad-share-max", "1")
    assert pipeline("load", "--topic", topic, *table_at, *decoding, *dead_letter).summary["dead_letters"] == 1
    elsewhere = f"{topic}.parked"
    retry_it = ("dead-letters", "retry", *table_at, *decoding, "--topic")
    ran = pipeline(*retry_it, f"{topic}.dlq", "--dead-letter-topic", elsewhere)
    assert (ran.code, ran.summary["dead_letters"]) == (PipelineExitCode.OK, 1), capsys.readouterr().err
    assert [one.said("attempt") for one in letters(bootstrap, f"{topic}.dlq")] == ["1"]
    assert [one.said("attempt") for one in letters(bootstrap, elsewhere)] == ["2"]
    # From there they are rows like any others.
    schema.write_text("id BIGINT")
    assert pipeline(*retry_it, elsewhere).summary["rows"] == 1
    assert [one.id for one in table(spark, "parquet", output).orderBy("offset").collect()] == [0, None, 2]
