"""`odradek-pipeline stream` with a real broker and Spark: batches, rates, verdicts, a clean stop, and the group."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import FencedError, PipelineExitCode
from odradek_pipeline.runs.steps import BATCH, PLANNED, WRITING
from tests.spark.records import send
from tests.spark.tables import hooked, logged, pipeline, stored, table
from tests.support.peers import CreateTopic
from tests.support.polling import SECONDS_MAX
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """The group's offsets, as another client reads them."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        keys = [TopicPartition(topic, number) for number in range(partitions)]
        return [one.offset for one in consumer.committed(keys, 30)]
    finally:
        consumer.close()


def at_first(step: str, call: Callable[[], object]) -> Callable[[str], None]:
    """A hook that calls once, when a step is reached for the first time."""
    waiting = [call]

    def reached(name: str) -> None:
        if name == step and waiting:
            waiting.pop()()

    return reached


def test_batches_follow_the_topic_and_the_group_shows_it(
    spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic, output = create_topic(2), str(tmp_path / unique)
    stream = ("stream", "--topic", topic, "--bootstrap", bootstrap, "--output", output, "--available-now")
    send(bootstrap, topic, numbered(100), 2)
    first = pipeline(*stream, "--max-offsets-per-trigger", "40")
    assert (first.code, first.summary["batches"], first.summary["rows"]) == (PipelineExitCode.OK, 3, 100), (
        first
    )
    batches = [one for one in first.events if one["event"] == BATCH]
    assert [(one["batch"], one["rows"], one["lag"]) for one in batches] == [
        (1, 40, 60),
        (2, 40, 20),
        (3, 20, 0),
    ]
    group = f"odradek-stream-{unique}"
    assert first.summary["group"] == group
    assert committed(bootstrap, group, topic, 2) == [50, 50]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS_MAX)
    send(bootstrap, topic, numbered(30), 3, start=100)
    second = pipeline(*stream, "--reader", "odradek", "--no-show-progress")
    assert [(one["partition"], one["start"], one["end"]) for one in second.summary["ranges"]] == [
        (0, 50, 60),
        (1, 50, 60),
        (2, 0, 10),
    ]
    assert committed(bootstrap, group, topic, 2) == [50, 50], "nothing was to be shown"
    nothing = pipeline(*stream)
    assert (nothing.summary["batches"], nothing.summary["rows"], nothing.summary["lag"]) == (0, 0, 0)
    assert committed(bootstrap, group, topic, 3) == [60, 60, 10], (
        "what a killed driver left out is shown at the start"
    )
    assert stored(table(spark, "parquet", output)) == logged(bootstrap, topic)
    runs = pipeline("runs", "--output", output).summary["runs"]
    assert [(one["number"], one["kind"]) for one in runs] == [
        (4, "stream"),
        (3, "stream"),
        (2, "stream"),
        (1, "stream"),
    ]


def test_a_stop_lets_the_batch_end(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, output = create_topic(2), str(tmp_path / "table")
    handler = signal.getsignal(signal.SIGTERM)
    settings = {"topic": topic, "bootstrap": bootstrap, "output": output, "trigger": "100ms"}
    send(bootstrap, topic, numbered(40), 2)
    done = hooked("stream", at_first(WRITING, lambda: signal.raise_signal(signal.SIGTERM)), **settings)
    assert (done.facts["stopped_by"], done.facts["batches"], done.exit_code) == (
        "SIGTERM",
        1,
        PipelineExitCode.OK,
    )
    # A trigger later there is more, and then Ctrl-C.
    send(bootstrap, topic, numbered(10), 2, start=40)
    reached: list[str] = []

    def feed_and_stop(step: str) -> None:
        if step == BATCH:
            reached.append(step)
            if len(reached) == 1:
                send(bootstrap, topic, numbered(10), 2, start=50)
            else:
                signal.raise_signal(signal.SIGINT)

    done = hooked("stream", feed_and_stop, **settings)
    assert (done.facts["stopped_by"], done.facts["batches"]) == ("SIGINT", 2)
    assert (done.facts["rows"], done.exit_code) == (20, PipelineExitCode.INTERRUPTED)
    assert stored(table(spark, "parquet", output)) == logged(bootstrap, topic)
    assert signal.getsignal(signal.SIGTERM) is handler


def test_another_run_is_followed_and_another_driver_is_not(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, output = create_topic(2), str(tmp_path / "table")
    at = ("--topic", topic, "--bootstrap", bootstrap, "--output", output)
    settings = {"topic": topic, "bootstrap": bootstrap, "output": output, "available_now": True}
    send(bootstrap, topic, numbered(20), 2)

    def load_as_well() -> None:
        assert pipeline("load", *at, "--stop", "0:5,1:5").summary["rows"] == 10

    done = hooked("stream", at_first(PLANNED, load_as_well), **settings)
    assert (done.facts["batches"], done.facts["rows"]) == (1, 10), "planned again, behind the load"
    send(bootstrap, topic, numbered(20), 2, start=20)

    def stream_as_well() -> None:
        assert pipeline("stream", *at, "--available-now").summary["rows"] == 20

    with pytest.raises(FencedError, match="took over query 'table' and committed its batch 2"):
        hooked("stream", at_first(PLANNED, stream_as_well), **settings)
    assert stored(table(spark, "parquet", output)) == logged(bootstrap, topic)


def test_verdicts_are_those_of_a_load(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic, output = create_topic(1), str(tmp_path / "table")
    stream = ("stream", "--topic", topic, "--bootstrap", bootstrap, "--output", output, "--available-now")
    send(bootstrap, topic, numbered(20), 1)
    assert pipeline(*stream).summary["rows"] == 20
    rows = logged(bootstrap, topic)
    send(bootstrap, topic, numbered(20), 1, start=20)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 25)])[TopicPartition(topic, 0, 25)].result(SECONDS_MAX)
    assert pipeline(*stream).code == PipelineExitCode.TRUNCATED
    assert "begins at 25, and offset 20 is next" in capsys.readouterr().err
    assert pipeline(*stream, "--on-truncated", "pass-over").summary["rows"] == 15
    rows |= logged(bootstrap, topic)
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    create_topic(1, topic)
    send(bootstrap, topic, numbered(50), 1, start=100)
    assert pipeline(*stream).code == PipelineExitCode.RECREATED
    assert pipeline(*stream, "--on-recreated", "start-again").summary["rows"] == 50
    assert stored(table(spark, "parquet", output)) == rows + logged(bootstrap, topic)
    away = (
        "stream",
        "--topic",
        topic,
        "--bootstrap",
        "127.0.0.1:1",
        "--output",
        output,
        "--trigger",
        "100ms",
    )
    assert pipeline(*away, "--max-outage", "1s", "--no-show-progress").code == PipelineExitCode.CONNECTION
    assert "waiting for the brokers" in capsys.readouterr().err
