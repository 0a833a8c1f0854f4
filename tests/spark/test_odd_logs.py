"""Loads from logs that are truncated, made again, transactional or compacted. Gaps are never taken for loss."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.records import send
from tests.spark.tables import PARQUET_BEFORE_PROOF, logged, pipeline, stored, table
from tests.support.peers import CreateTopic, topic_creator
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]


@pytest.mark.parametrize("output_format", PARQUET_BEFORE_PROOF)
def test_a_truncated_log_is_named_and_passed_over_on_request(
    spark: Any,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    output_format: str,
    unique: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic, output = create_topic(2), _output(output_format, tmp_path, unique)
    at = ("--bootstrap", bootstrap, "--output", output, "--format", output_format)
    send(bootstrap, topic, numbered(40), 2)
    first = pipeline("load", "--topic", topic, *at).summary["run"]
    before = logged(bootstrap, topic)
    send(bootstrap, topic, numbered(40), 2, start=40)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 25)])[TopicPartition(topic, 0, 25)].result(SECONDS_MAX)
    assert pipeline("load", "--topic", topic, *at).code == PipelineExitCode.TRUNCATED
    assert "begins at 25, and offset 20 is next" in capsys.readouterr().err
    passed = pipeline("load", "--topic", topic, *at, "--on-truncated", "pass-over")
    assert (passed.code, passed.summary["lost_offsets"], passed.summary["rows"]) == (0, 5, 35)
    assert "passed over" in capsys.readouterr().err
    assert stored(table(spark, output_format, output)) == before | logged(bootstrap, topic)
    # What the log no longer has stays in the table when its range is read again.
    assert pipeline("replay", "--run", first, *at).code == PipelineExitCode.TRUNCATED
    again = pipeline("replay", "--run", first, *at, "--on-truncated", "pass-over")
    assert (again.code, again.summary["rows"]) == (0, 20)
    assert stored(table(spark, output_format, output)) == before | logged(bootstrap, topic)


@pytest.mark.parametrize("output_format", PARQUET_BEFORE_PROOF)
def test_a_topic_made_again_is_another_topic(
    spark: Any,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    output_format: str,
    unique: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from confluent_kafka.admin import AdminClient

    topic, output = create_topic(1), _output(output_format, tmp_path, unique)
    at = ("--bootstrap", bootstrap, "--output", output, "--format", output_format)
    send(bootstrap, topic, numbered(10), 1)
    assert pipeline("load", "--topic", topic, *at).summary["rows"] == 10
    before = logged(bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    create_topic(1, topic)
    send(bootstrap, topic, numbered(30), 1, start=100)
    assert pipeline("load", "--topic", topic, *at).code == PipelineExitCode.RECREATED
    assert "and the topic has id" in capsys.readouterr().err
    assert pipeline("replay", "--start", "earliest", *at).code == PipelineExitCode.RECREATED
    assert pipeline("load", "--topic", topic, *at, "--on-recreated", "start-again").summary["rows"] == 30
    assert stored(table(spark, output_format, output)) == before + logged(bootstrap, topic)


def test_transactions_leave_gaps_and_open_ones_hold_a_load_back(
    spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic, output = create_topic(1), str(tmp_path / "table")
    at = ("--bootstrap", bootstrap, "--output", output)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique, "acks": "all"})
    producer.init_transactions(30)

    def transact(values: list[bytes], *, ends: str) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
        if ends == "committed":
            producer.commit_transaction(30)
        elif ends == "aborted":
            producer.abort_transaction(30)

    transact(numbered(10), ends="committed")
    transact(numbered(5), ends="aborted")
    transact(numbered(7), ends="open")
    first = pipeline("load", "--topic", topic, *at).summary
    assert (first["rows"], first["offsets"], first["offsets_without_row"]) == (10, 17, 7)
    assert pipeline("load", "--topic", topic, *at).summary["run"] is None
    producer.commit_transaction(30)
    # The tail of this range is one marker, which no reader returns.
    second = pipeline("load", "--topic", topic, *at).summary
    assert (second["rows"], second["offsets"]) == (7, 8)
    transact(numbered(3), ends="aborted")
    third = pipeline("load", "--topic", topic, *at).summary
    assert (third["rows"], third["offsets"]) == (0, 4)
    assert stored(table(spark, "parquet", output)) == logged(bootstrap, topic)
    again = pipeline("replay", "--start", "earliest", *at, "--reader", "odradek").summary
    assert (again["rows"], again["offsets"]) == (17, 29)
    assert stored(table(spark, "parquet", output)) == logged(bootstrap, topic)


def test_a_compacted_topic_is_loaded_with_its_gaps(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01, "segment_ms": 100}
    topic = topic_creator(bootstrap)(1, **compacted)
    output = str(tmp_path / "table")
    at = ("--bootstrap", bootstrap, "--output", output)
    send_keys(bootstrap, topic, range(200))
    first = pipeline("load", "--topic", topic, *at)
    assert first.summary["offsets"] == 200
    send_keys(bootstrap, topic, range(200, 220))
    asyncio.run(
        eventually("the log is compacted", lambda: logged(bootstrap, topic).total() < 100, seconds_max=90)
    )
    assert pipeline("load", "--topic", topic, *at).code == PipelineExitCode.OK
    again = pipeline("replay", "--start", "earliest", *at)
    assert (again.code, again.summary["offsets"]) == (PipelineExitCode.OK, 220)
    assert again.summary["offsets_without_row"] > 100
    assert stored(table(spark, "parquet", output)) == logged(bootstrap, topic)
    other = pipeline("load", "--topic", topic, *at[:2], "--output", f"{output}-2", "--reader", "odradek")
    assert (other.code, other.summary["offsets"]) == (PipelineExitCode.OK, 220)
    assert stored(table(spark, "parquet", f"{output}-2")) == logged(bootstrap, topic)


def _output(output_format: str, folder: Path, unique: str) -> str:
    """Where a table of this format goes: Iceberg has names in a catalog, the others have folders."""
    return f"lake.odd.{unique.replace('-', '_')}" if output_format == "iceberg" else str(folder / "table")


def send_keys(bootstrap: str, topic: str, numbers: range) -> None:
    """Records with ten keys in turn, in small batches, so that segments roll."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, key=b"%d" % (number % 10), partition=0)
        if number % 20 == 19:
            assert producer.flush(30) == 0
