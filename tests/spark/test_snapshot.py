"""`odradek-pipeline snapshot` with a real broker and Spark: a table is the last value of each key of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import FencedError, PipelineExitCode
from odradek_pipeline.runs.steps import PLANNED, PUBLISHING, WRITING
from odradek_pipeline.work.worker import open_output
from tests.spark.tables import OUTPUT_FORMATS, Row, hooked, logged, pipeline, stored, table
from tests.spark.test_tables import place
from tests.support.peers import topic_creator

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]


class DriverEndedError(Exception):
    """What a test raises in the middle of a run."""


def put(bootstrap: str, topic: str, values: Iterable[tuple[int, str | None]]) -> None:
    """Keys with their values; a key always goes to the same of two partitions. None is a tombstone."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in values:
        producer.produce(
            topic, None if value is None else value.encode(), key=b"k%d" % key, partition=key % 2
        )
    assert producer.flush(30) == 0


def put_and_abort(bootstrap: str, topic: str, name: str) -> None:
    """Values that no reader of committed records sees."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for key in range(10):
        producer.produce(topic, b"aborted", key=b"k%d" % key, partition=key % 2)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)


def last_values(bootstrap: str, topic: str) -> Counter[Row]:
    """By the log as kafka-python reads it."""
    last: dict[tuple[int, bytes | None], Row] = {}
    for row in sorted(logged(bootstrap, topic), key=lambda one: one.offset):
        last[row.partition, row.key] = row
    return Counter(row for row in last.values() if row.value is not None)


@pytest.mark.parametrize("output_format", OUTPUT_FORMATS)
def test_a_table_has_the_last_values(
    output_format: str, spark: Any, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    topic = topic_creator(bootstrap)(2, cleanup_policy="compact")
    output = place(output_format, tmp_path, unique)
    at = ("--bootstrap", bootstrap, "--output", output, "--format", output_format)
    snapshot = ("snapshot", "--topic", topic, *at)
    settings = {"bootstrap": bootstrap, "output": output, "format": output_format, "topic": topic}

    def require_last_values() -> None:
        assert stored(table(spark, output_format, output)) == last_values(bootstrap, topic)

    put(bootstrap, topic, [(number % 20, f"first {number}") for number in range(50)])
    put(bootstrap, topic, [(3, None), (99, None)])
    first = pipeline(*snapshot, "--stop", "0:20,1:20")
    assert (first.code, first.summary["offsets"], first.summary["keys"]) == (PipelineExitCode.OK, 40, 20), (
        first
    )
    put_and_abort(bootstrap, topic, unique)
    second = pipeline(*snapshot, "--reader", "odradek")
    assert (second.summary["keys"], second.summary["read_whole"]) == (19, [topic]), (
        "the first was no look at the end"
    )
    require_last_values()

    # Values change, keys go and come; a driver ends before its commit, and another one is faster than the next.
    put(
        bootstrap,
        topic,
        [(1, "changed"), (2, None), (3, "again"), (40, "new"), (1, "changed twice"), (41, None)],
    )

    def end(step: str) -> None:
        if step == (WRITING if output_format == "delta" else PUBLISHING):
            raise DriverEndedError

    with pytest.raises(DriverEndedError):
        hooked("snapshot", end, **settings)
    others: list[int] = []

    def snapshot_as_well(step: str) -> None:
        if step == PLANNED and not others:
            others.append(0)
            others[0] = pipeline(*snapshot).summary["offsets"]

    with pytest.raises(FencedError):
        hooked("snapshot", snapshot_as_well, **settings)
    assert others == [6]
    require_last_values()
    newest = open_output(spark, output_format, output).read_newest().record
    assert newest is not None and newest.scope[0].start == 0 and newest.span == 6, "it read what was new"
    nothing = pipeline(*snapshot)
    assert (nothing.code, nothing.summary["run"]) == (PipelineExitCode.OK, None)

    # A tombstone of a key that is not there changes no row, and the position moves on.
    put(bootstrap, topic, [(98, None)])
    if output_format == "iceberg":
        spark.sql(f"ALTER TABLE {output} CREATE BRANCH odradek_20200101T000000Z_1f0c9a2b")
    assert pipeline(*snapshot).summary["offsets"] == 1
    if output_format == "iceberg":
        names = [row.name for row in spark.sql(f"SELECT name FROM {output}.refs").collect()]
        assert names == ["main"], "what a killed merge left a day ago is removed, and its own is gone"
    assert pipeline(*snapshot).summary["run"] is None
    whole = pipeline(*snapshot, "--whole")
    assert (whole.summary["read_whole"], whole.summary["keys"]) == ([topic], 20)
    require_last_values()
    kinds = [one["kind"] for one in pipeline("runs", *at[2:]).summary["runs"]]
    assert kinds == ["snapshot"] * 5
    assert pipeline("load", "--topic", topic, *at).code == PipelineExitCode.OK, "there is nothing to load"
    put(bootstrap, topic, [(5, "more")])
    assert pipeline("load", "--topic", topic, *at).code == PipelineExitCode.USAGE


def test_an_old_snapshot_is_read_whole_since_tombstones_may_be_gone(
    spark: Any, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topic_creator(bootstrap)(2, cleanup_policy="compact", delete_retention_ms=1)
    output = str(tmp_path / "table")
    snapshot = ("snapshot", "--topic", topic, "--bootstrap", bootstrap, "--output", output)
    put(bootstrap, topic, [(number, "value") for number in range(10)])
    assert pipeline(*snapshot).summary["keys"] == 10
    put(bootstrap, topic, [(0, None)])
    again = pipeline(*snapshot)
    assert (again.summary["read_whole"], again.summary["offsets"], again.summary["keys"]) == ([topic], 11, 9)
    assert "tombstones stay for 1 ms" in capsys.readouterr().err
    assert stored(table(spark, "parquet", output)) == last_values(bootstrap, topic)
