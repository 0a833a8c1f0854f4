"""Every reader into every format, and from there and from topics into topics by both sinks: the same records."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.spark.records import send, source, values_of
from tests.spark.tables import logged, pipeline, stored, table
from tests.spark.test_tables import place
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]

CONNECTORS = ("kafka", "odradek")
FORMATS = ("parquet", "delta", "iceberg")


def test_each_reader_fills_each_format_and_all_of_it_goes_back_into_topics(
    spark: Any, bootstrap: str, create_topic: CreateTopic, unique: str, tmp_path: Path
) -> None:
    topic, values = create_topic(2), numbered(40)
    send(bootstrap, topic, values[:20], 2)
    at = {one: place(one, tmp_path, unique) for one in FORMATS}
    for reader, output_format in product(CONNECTORS, FORMATS):
        where = ("--output", at[output_format], "--format", output_format, "--bootstrap", bootstrap)
        assert pipeline("load", "--topic", topic, *where, "--reader", reader).code == 0
        # Each reader has a half of every table.
        if output_format == FORMATS[-1] and reader == CONNECTORS[0]:
            send(bootstrap, topic, values[20:], 2, start=20)
    frames = {"kafka": source(spark, bootstrap, topic)}
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    frames["odradek"] = spark.read.format("odradek").options(**options).load()
    for output_format in FORMATS:
        frames[output_format] = table(spark, output_format, at[output_format])
        assert stored(frames[output_format]) == logged(bootstrap, topic)
    for name, frame in frames.items():
        for sink in CONNECTORS:
            target = create_topic(2)
            writer = frame.select("key", "value").write.format(sink).mode("append")
            writer.option("kafka.bootstrap.servers", bootstrap).option("topic", target).save()
            assert values_of(source(spark, bootstrap, target)) == values, f"{name} into {sink}"
