"""`odradek-pipeline audit tiles` with a real broker and Spark: gaps are explained, and damage to a table is named."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.records import send
from tests.spark.tables import Ran, logged, pipeline
from tests.support.peers import CreateTopic, topic_creator
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]

EXPLAINED = ("rows", "dead", "control", "aborted", "compacted", "passed_over", "unchecked", "unexplained")


def tiles(bootstrap: str, output: str, *options: str) -> Ran:
    return pipeline("audit", "tiles", "--bootstrap", bootstrap, "--output", output, *options)


def figures(ran: Ran, partition: int = 0) -> dict[str, int]:
    """What the offsets of one partition are, without what none is."""
    row = next(one for one in ran.summary["tiles"] if one["partition"] == partition)
    return {name: row[name] for name in EXPLAINED if row[name]}


def spoil(output: str, change: Any) -> None:
    """Change the rows of a Parquet table's only file behind the table's back."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (path,) = Path(output).rglob("part-*.parquet")
    rows = pq.read_table(path)
    spoiled = pa.Table.from_pylist(change(rows.to_pylist()), schema=rows.schema)
    pq.write_table(spoiled, path, use_deprecated_int96_timestamps=True)  # as Spark writes them
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def test_transactions_explain_gaps_and_damage_does_not(
    spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic, output = create_topic(1), str(tmp_path / "table")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique, "acks": "all"})
    producer.init_transactions(30)
    for ends in ("committed", "aborted", "committed"):
        producer.begin_transaction()
        for value in numbered(10):
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
        if ends == "committed":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    # 0..10 committed, marker, 11..21 aborted, marker, 22..32 committed, marker
    at = ("--bootstrap", bootstrap, "--output", output)
    assert pipeline("load", "--topic", topic, *at).summary["rows"] == 20
    clean = tiles(bootstrap, output)
    assert (clean.code, clean.summary["unexplained"], clean.summary["faults"]) == (PipelineExitCode.OK, 0, [])
    assert figures(clean) == {"rows": 20, "control": 3, "aborted": 10}

    def damage(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [row for row in rows if row["offset"] not in (4, 5)]
        twice = [row for row in rows if row["offset"] == 8]
        return [*kept, *twice, {**rows[0], "offset": 12}, {**rows[0], "offset": 40}]

    spoil(output, damage)
    found = tiles(bootstrap, output)
    assert found.code == PipelineExitCode.UNEXPLAINED
    assert sorted(found.summary["faults"]) == [
        f"{topic}-0 12..13 uncommitted",
        f"{topic}-0 4..6 missing",
        f"{topic}-0 40..41 foreign",
        f"{topic}-0 8..9 doubled",
    ]


def test_truncation_replays_and_more_partitions(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic, output = create_topic(2), str(tmp_path / "table")
    at = ("--bootstrap", bootstrap, "--output", output)
    send(bootstrap, topic, numbered(40), 2)
    assert pipeline("load", "--topic", topic, *at).code == 0
    send(bootstrap, topic, numbered(40), 2, start=40)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 25)])[TopicPartition(topic, 0, 25)].result(SECONDS_MAX)
    assert pipeline("load", "--topic", topic, *at, "--on-truncated", "pass-over").code == 0
    assert pipeline("replay", *at, "--topic", topic, "--start", "1:5", "--stop", "1:15").code in (0, 2)
    found = tiles(bootstrap, output)
    assert found.code == PipelineExitCode.OK, found.summary
    assert figures(found, 0) == {"rows": 35, "passed_over": 5}
    assert figures(found, 1) == {"rows": 40}


def test_a_topic_made_again_and_rows_of_no_run(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka.admin import AdminClient

    topic, output = create_topic(1), str(tmp_path / "table")
    load = ("load", "--topic", topic, "--bootstrap", bootstrap, "--output", output)
    send(bootstrap, topic, numbered(10), 1)
    assert pipeline(*load).summary["rows"] == 10
    spoil(output, lambda rows: [*rows, {**rows[0], "partition": 7, "offset": 3}])
    found = tiles(bootstrap, output)
    assert (found.code, found.summary["faults"]) == (
        PipelineExitCode.UNEXPLAINED,
        [f"{topic}-7 3..4 foreign"],
    )
    spoil(output, lambda rows: rows[:10])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    gone = tiles(bootstrap, output)
    assert (gone.code, gone.summary["not_compared"]) == (PipelineExitCode.OK, [f"{topic}-0"])
    assert "the topic was deleted" in capsys.readouterr().err
    create_topic(1, topic)
    send(bootstrap, topic, numbered(5), 1)
    again = tiles(bootstrap, output)
    assert (again.code, again.summary["not_compared"]) == (PipelineExitCode.OK, [f"{topic}-0"])
    assert "the topic was made again" in capsys.readouterr().err
    assert pipeline(*load, "--on-recreated", "start-again").summary["rows"] == 5
    both = tiles(bootstrap, output)
    assert (both.code, both.summary["not_compared"], figures(both)) == (PipelineExitCode.OK, [], {"rows": 5})


def test_compaction_is_explained(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01, "segment_ms": 100}
    topic, output = topic_creator(bootstrap)(1, **compacted), str(tmp_path / "compacted")
    producer = Producer({"bootstrap.servers": bootstrap})

    def send_keys(numbers: range) -> None:
        for number in numbers:
            producer.produce(topic, b"%d" % number, key=b"%d" % (number % 10), partition=0)
            if number % 20 == 19:
                assert producer.flush(30) == 0

    send_keys(range(200))
    at = ("--bootstrap", bootstrap, "--output")
    assert pipeline("load", "--topic", topic, *at, output).summary["rows"] > 100
    send_keys(range(200, 220))
    asyncio.run(
        eventually("the log is compacted", lambda: logged(bootstrap, topic).total() < 100, seconds_max=90)
    )
    assert pipeline("load", "--topic", topic, *at, output).code == 0
    found = tiles(bootstrap, output)
    assert found.code == PipelineExitCode.OK, found.summary
    assert figures(found)["rows"] > 100 > logged(bootstrap, topic).total(), "rows outlive their records"
    rows = pipeline("load", "--topic", topic, *at, f"{output}.2").summary["rows"]
    found = tiles(bootstrap, f"{output}.2")
    assert (found.code, figures(found)) == (PipelineExitCode.OK, {"rows": rows, "compacted": 220 - rows})


def test_dead_letters_count_as_read(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, output, letters = create_topic(1), str(tmp_path / "bad"), create_topic(1)
    values = [b'{"n": 1}', b"no JSON", b'{"n": 2}', b"nor this"]
    send(bootstrap, topic, values, 1)
    schema = tmp_path / "schema.json"
    schema.write_text('{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}')
    load = ("load", "--topic", topic, "--bootstrap", bootstrap, "--output", output, "--value-format", "json")
    bad = ("--on-bad-record", "dead-letter", "--bad-share-max", "1", "--dead-letter-topic", letters)
    ran = pipeline(*load, "--value-schema", str(schema), *bad)
    assert ran.code == 0 and (ran.summary["rows"], ran.summary["dead_letters"]) == (2, 2)
    found = tiles(bootstrap, output, "--dead-letter-topic", letters)
    assert (found.code, figures(found)) == (PipelineExitCode.OK, {"rows": 2, "dead": 2})
    missing = tiles(bootstrap, output)
    assert missing.code == PipelineExitCode.UNEXPLAINED
    assert missing.summary["faults"] == [f"{topic}-0 1..2 missing", f"{topic}-0 3..4 missing"]
