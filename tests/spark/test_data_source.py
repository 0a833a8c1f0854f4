"""`format("odradek")` in a real Spark: the stock connector's columns, what a frame writes, a stream that resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import OptionError
from odradek_pipeline.sink.writers import check_session
from tests.spark.records import send
from tests.spark.test_sink_writing import committed
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400), pytest.mark.thorough]

STREAM_SECONDS_MAX = 150
PLACE = ("topic", "partition", "offset")


def source(spark: Any, name: str, bootstrap: str, topics: str) -> Any:
    """All records of topics, by either connector."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topics, "includeHeaders": "true"}
    return spark.read.format(name).options(**options).load()


def test_columns_are_those_of_the_stock_connector(
    spark: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(3)
    values = numbered(3000)
    send(bootstrap, topic, values, 3)
    expected, frame = (source(spark, name, bootstrap, topic) for name in ("kafka", "odradek"))
    assert [(one.name, one.dataType) for one in frame.schema] == [
        (one.name, one.dataType) for one in expected.schema
    ]
    assert frame.orderBy(*PLACE).collect() == expected.orderBy(*PLACE).collect()


def test_a_frame_writes_each_column(spark: Any, bootstrap: str, create_topic: CreateTopic) -> None:
    topics = [create_topic(3), create_topic(3)]
    rows = [
        (
            topics[number % 2],
            number % 3,
            None if number % 7 == 0 else f"k{number}",
            None if number % 5 == 0 else f"v{number}",
            [("h", bytearray(b"%d" % number))] if number % 2 else None,
        )
        for number in range(60)
    ]
    shape = "topic string, partition int, key string, value string, headers array<struct<key string, value binary>>"
    frame = spark.createDataFrame(rows, shape).repartition(2)
    frame.write.format("odradek").option("bootstrap.servers", bootstrap).mode("append").save()

    def decoded(value: Any) -> str | None:
        return None if value is None else bytes(value).decode()

    for name in ("kafka", "odradek"):
        found = [
            (
                row.topic,
                row.partition,
                decoded(row.key),
                decoded(row.value),
                row.headers and [tuple(one) for one in row.headers],
            )
            for row in source(spark, name, bootstrap, ",".join(topics)).collect()
        ]
        assert sorted(found, key=str) == sorted(rows, key=str)


def test_a_stream_copies_each_row_once_over_restarts(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    origin, target = create_topic(2), create_topic(2)
    values = numbered(600)
    for start in (0, 400):
        send(bootstrap, origin, values[start : start + 400], 2, start=start)
        query = (
            spark.readStream.format("odradek")
            .options(subscribe=origin, startingOffsets="earliest", availableNow="true")
            .option("bootstrap.servers", bootstrap)
            .load()
            .select("key", "value", "partition")
            .writeStream.format("odradek")
            .options(topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
            .option("bootstrap.servers", bootstrap)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(STREAM_SECONDS_MAX)
    assert committed(bootstrap, target) == values


def test_a_session_with_speculation_is_refused(spark: Any) -> None:
    check_session(spark)

    class Speculating:
        class sparkContext:  # noqa: N801 (Spark's name)
            @staticmethod
            def getConf() -> dict[str, str]:
                return {"spark.speculation": "true"}

    with pytest.raises(OptionError, match="speculation is true"):
        check_session(Speculating)  # type: ignore[arg-type]
