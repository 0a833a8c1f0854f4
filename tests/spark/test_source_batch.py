"""`format("odradek")` reads batches: every column, every way to name a range, and what is not there any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.records import send
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def source(spark: Any, bootstrap: str, topic: str, **options: str) -> Any:
    """A frame of a topic's records; `options` are the format's."""
    reader = spark.read.format("odradek").option("bootstrap.servers", bootstrap)
    if not options.keys() & {"assign", "subscribe", "subscribePattern"}:
        reader = reader.option("subscribe", topic)
    return reader.options(**options).load()


def test_columns_are_those_of_the_stock_connector(
    spark: Any, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(3)
    values = numbered(3000)
    send(bootstrap, topic, values, 3)
    stock = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    expected = stock.option("includeHeaders", "true").load()
    frame = source(spark, bootstrap, topic, includeHeaders="true")
    assert [(one.name, one.dataType) for one in frame.schema] == [
        (one.name, one.dataType) for one in expected.schema
    ]
    by_place = ("partition", "offset")
    assert frame.orderBy(*by_place).collect() == expected.orderBy(*by_place).collect()
