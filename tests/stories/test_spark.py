"""Spark's story: a topic is loaded into a table, streamed into another, and written back into a topic.

`tests/spark` asks each of these far more. Here one session does all, with the jars that PySpark's own Ivy fetches.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.records import send
from tests.spark.tables import logged, pipeline, stored
from tests.support.java import JavaUnavailableError
from tests.support.peers import CreateTopic, skip_or_fail, topic_creator
from tests.support.polling import SECONDS_MAX
from tests.support.samples import numbered
from tests.support.spark import spark_session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        with spark_session(tmp_path_factory.mktemp("spark")) as session:
            yield session
    except JavaUnavailableError as error:
        skip_or_fail(str(error))


@pytest.fixture
def create_topic(bootstrap: str) -> CreateTopic:
    """Topics that keep what they hold: the records' times lie years back, where retention would remove them."""
    create = topic_creator(bootstrap)
    return lambda partitions=1, name=None: create(partitions, name, retention_ms=-1)


def test_records_go_through_tables_and_come_back(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    from odradek_pipeline.outputs.parquet.output import read_table

    topic, copy = create_topic(2), create_topic(2)
    send(bootstrap, topic, numbered(200), 2)
    written = logged(bootstrap, topic)

    loaded, streamed = str(tmp_path / "loaded"), str(tmp_path / "streamed")
    there = ("--bootstrap", bootstrap, "--topic", topic)
    assert pipeline("load", *there, "--output", loaded).summary["rows"] == 200
    assert stored(read_table(spark, loaded)) == written
    assert pipeline("stream", *there, "--output", streamed, "--available-now").summary["rows"] == 200
    assert stored(read_table(spark, streamed)) == written

    ours = {"bootstrap.servers": bootstrap}
    source = spark.read.format("odradek").options(**ours, subscribe=topic).load()
    rows = source.select("key", "value", "partition")
    rows.write.format("odradek").options(**ours, topic=copy).mode("append").save()
    stock = {"kafka.bootstrap.servers": bootstrap, "subscribe": copy, "startingOffsets": "earliest"}
    back = spark.read.format("kafka").options(**stock).load().select("value").collect()
    assert sorted(bytes(row.value) for row in back) == sorted(numbered(200))

    query = (
        spark.readStream.format("kafka")
        .options(**{**stock, "subscribe": topic})
        .load()
        .select("key", "value", "partition")
        .writeStream.format("odradek")
        .options(**ours, topic=copy, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(SECONDS_MAX)
    assert sum(logged(bootstrap, copy).values()) == 400
