"""Spark 4.0.0 with its stock connector: what was sent is what a job reads, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.records import fetched, send, source, values_of
from tests.support.peers import CreateTopic
from tests.support.samples import BASE_TIME_MS, numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]

STREAM_SECONDS_MAX = 90


def test_a_batch_reads_everything_with_keys_headers_and_times(
    spark: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(3)
    values = numbered(3000)
    send(bootstrap, topic, values, 3)
    rows = source(spark, bootstrap, topic, includeHeaders="true").collect()
    assert sorted(bytes(row.value) for row in rows) == values
    for row in rows:
        number = int(row.key)
        assert (row.partition, row.offset) == (number % 3, number // 3)
        assert row.timestamp.timestamp() * 1000 == BASE_TIME_MS + number // 3 * 1000
        assert [(header.key, bytes(header.value)) for header in row.headers] == [("n", b"%d" % number)]


def test_a_batch_reads_ranges_of_offsets_and_of_time(
    spark: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(2)
    values = numbered(200)
    send(bootstrap, topic, values, 2)
    by_offset = source(
        spark,
        bootstrap,
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 20, "1": -1}}),
    )
    assert values_of(by_offset) == sorted(values[20:40:2] + values[1::2])
    by_time = source(
        spark,
        bootstrap,
        topic,
        startingTimestamp=str(BASE_TIME_MS + 30_000),
        endingTimestamp=str(BASE_TIME_MS + 40_000),
    )
    assert values_of(by_time) == values[60:80]
    by_time_of_each = source(
        spark,
        bootstrap,
        topic,
        startingOffsetsByTimestamp=json.dumps(
            {topic: {"0": BASE_TIME_MS + 90_000, "1": BASE_TIME_MS + 99_500}}
        ),
        endingOffsetsByTimestamp=json.dumps(
            {topic: {"0": BASE_TIME_MS + 95_000, "1": BASE_TIME_MS + 200_000}}
        ),
        startingOffsetsByTimestampStrategy="latest",  # for the partition that has nothing so late
        failOnDataLoss="false",
    )
    assert values_of(by_time_of_each) == values[180:190:2]
    split = source(spark, bootstrap, topic, minPartitions="8")
    assert split.rdd.getNumPartitions() >= 8
    assert values_of(split) == values


def test_partitions_and_topics_are_named_or_matched(
    spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topics = [create_topic(2, name=f"{unique}-{number}") for number in range(2)]
    values = numbered(40)
    send(bootstrap, topics[0], values[:20], 2)
    send(bootstrap, topics[1], values[20:], 2, start=20)
    assert values_of(source(spark, bootstrap, topics[0], subscribePattern=f"{unique}-[01]")) == values
    named = source(spark, bootstrap, topics[1], assign=json.dumps({topics[1]: [1]}))
    assert values_of(named) == values[21::2]


def test_each_row_says_its_topic_partition_and_headers(
    spark: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    topics = [create_topic(3), create_topic(3)]
    rows = [
        (topics[number % 2], number % 3, f"k{number}", f"v{number}", [("h", bytearray(b"%d" % number))])
        for number in range(60)
    ]
    shape = "topic string, partition int, key string, value string, headers array<struct<key string, value binary>>"
    frame = spark.createDataFrame(rows, shape)
    options = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": "true"}
    for compression in ("gzip", "snappy", "lz4", "zstd"):
        frame.write.format("kafka").options(**options, **{"kafka.compression.type": compression}).save()
    read = source(spark, bootstrap, "", subscribe=",".join(topics), includeHeaders="true").collect()
    found = sorted(
        (row.topic, row.partition, row.key.decode(), row.value.decode(), [tuple(one) for one in row.headers])
        for row in read
    )
    assert found == sorted(rows * 4)


def test_a_batch_is_written_with_keys_and_tombstones(
    spark: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    rows = [("a", "1"), ("b", None), (None, "3")]
    frame = spark.createDataFrame(rows, "key string, value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
    assert fetched(bootstrap, topic, 1, 3) == [(b"a", b"1"), (b"b", None), (None, b"3")]


def test_a_stream_goes_on_from_its_checkpoint_after_being_killed(
    spark: Any, restartable: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """A copying stream is stopped in its tracks, the broker restarts, and nothing is lost or changed."""
    origin, target = create_topic(2), create_topic(2)
    values = numbered(2000)

    def stream() -> Any:
        frame = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", origin)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "300")
            .load()
        )
        return (
            frame.select("key", "value", "partition")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )

    send(bootstrap, origin, values[:1000], 2)
    query = stream()
    while query.lastProgress is None:
        assert query.awaitTermination(0.1) is False
    query.stop()  # between two of the batches, or within one
    restartable.restart(crash=True)
    send(bootstrap, origin, values[1000:], 2, start=1000)
    query = stream()
    query.processAllAvailable()
    query.stop()
    copied = source(spark, bootstrap, target)
    # The sink writes at least once: the batch that was cut off may be there twice.
    assert sorted({bytes(row.value) for row in copied.collect()}) == values


def test_a_stream_into_files_holds_each_record_once(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(2)
    values = numbered(1500)

    def run_once() -> None:
        query = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .select("value", "partition", "offset")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(STREAM_SECONDS_MAX)

    for number in range(3):
        send(bootstrap, topic, values[number * 500 : number * 500 + 500], 2, start=number * 500)
        run_once()
    assert values_of(spark.read.parquet(str(tmp_path / "out"))) == values
