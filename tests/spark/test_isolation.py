"""Spark's stock connector reads what a plain consumer reads: over aborted transactions, and over a compacted topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.spark.records import source
from tests.support.broker_process import Broker
from tests.support.peers import QUICK, forgive_unclosed, topic_creator
from tests.support.plain_reads import is_end
from tests.support.polling import wait_until

__all__ = ["forgive_unclosed"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]

PARTITIONS = 2
SECONDS_MAX = 120.0
KEYS = 50
ROUNDS = 40

Row = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key and value."""


@pytest.fixture
def compacting(tmp_path: Path) -> Iterator[Broker]:
    """A broker that looks for logs to compact twice a second."""
    settings = {"log.cleaner.backoff.ms": "500", "log.cleaner.min.cleanable.ratio": "0.01"}
    broker = Broker(tmp_path / "compacting", settings=QUICK | settings)
    broker.start()
    yield broker
    broker.close()


def consumed(bootstrap: str, topic: str, level: str) -> list[Row]:
    """What librdkafka reads from the beginning to the ends of all partitions, sorted."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True, "isolation.level": level})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: list[Row] = []
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, "no answer from the broker"
        if (error := message.error()) is not None:
            ends += is_end(error)
            continue
        found.append((message.partition() or 0, message.offset() or 0, message.key(), message.value()))
    consumer.close()
    return sorted(found)


def rows_of(frame: Any) -> list[Row]:
    """The same of a frame."""

    def plain(value: bytearray | None) -> bytes | None:
        return None if value is None else bytes(value)

    return sorted((row.partition, row.offset, plain(row.key), plain(row.value)) for row in frame.collect())


def streamed(
    spark: Any, bootstrap: str, topic: str, folder: Path, level: str, *, offsets_max: int
) -> list[Row]:
    """The same of a stream in several batches, which begin and end within transactions."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(offsets_max)}
    query = (
        spark.readStream.format("kafka")
        .options(**{"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": level}, **options)
        .load()
        .select("partition", "offset", "key", "value")
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(SECONDS_MAX))
    return rows_of(spark.read.parquet(str(folder / "out")))


def write_transactions(bootstrap: str, topic: str, *, count: int) -> Producer:
    """Every third transaction is aborted, some span both partitions; the last stays open. Its producer."""
    plain = Producer({"bootstrap.servers": bootstrap})
    # The open transaction outlasts Spark's work on a busy machine.
    settings = {"transactional.id": topic, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(SECONDS_MAX)
    for number in range(count + 1):
        producer.begin_transaction()
        for place in range(1 + number % 5):
            value = b"%d of %d" % (place, number)
            producer.produce(topic, value, b"%d" % number, partition=(number + place) % PARTITIONS)
        assert producer.flush(SECONDS_MAX) == 0
        if number == count:
            break
        # A record of no transaction stands within one: it is read when the transaction has ended.
        plain.produce(topic, b"plain %d" % number, partition=number % PARTITIONS)
        assert plain.flush(SECONDS_MAX) == 0
        if number % 3:
            producer.commit_transaction(SECONDS_MAX)
        else:
            producer.abort_transaction(SECONDS_MAX)
    return producer


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_spark_reads_what_a_consumer_reads_over_aborted_transactions(
    spark: Any, bootstrap: str, tmp_path: Path, level: str
) -> None:
    topic = topic_creator(bootstrap)(PARTITIONS)
    producer = write_transactions(bootstrap, topic, count=60)
    expected = consumed(bootstrap, topic, level)
    aborted = [key for _, _, key, _ in expected if key is not None and int(key) % 3 == 0]
    assert bool(aborted) == (level == "read_uncommitted")
    assert rows_of(source(spark, bootstrap, topic, **{"kafka.isolation.level": level})) == expected
    assert streamed(spark, bootstrap, topic, tmp_path, level, offsets_max=77) == expected
    producer.abort_transaction(SECONDS_MAX)


def test_spark_reads_what_a_consumer_reads_from_a_compacted_topic(
    spark: Any, compacting: Broker, tmp_path: Path
) -> None:
    bootstrap = compacting.bootstrap
    topic = topic_creator(bootstrap)(
        PARTITIONS, cleanup_policy="compact", segment_bytes=1 << 20, segment_ms=500
    )
    last = write_keys(bootstrap, topic)
    wait_until(
        "the topic is compacted",
        lambda: len(consumed(bootstrap, topic, "read_committed")) <= 2 * len(last),
        pause_seconds=0.5,
    )
    deadline = time.monotonic() + SECONDS_MAX
    # What was compacted has been swapped in as a whole once two reads around Spark's are the same.
    while True:
        before = consumed(bootstrap, topic, "read_committed")
        rows = rows_of(source(spark, bootstrap, topic, **{"kafka.isolation.level": "read_committed"}))
        if before == consumed(bootstrap, topic, "read_committed"):
            break
        assert time.monotonic() < deadline, "compaction does not come to an end"
    assert rows == before
    assert {key: value for _, _, key, value in rows} == last
    streams_rows = streamed(spark, bootstrap, topic, tmp_path, "read_committed", offsets_max=700)
    assert {key: value for _, _, key, value in streams_rows} == last


def write_keys(bootstrap: str, topic: str) -> dict[bytes | None, bytes | None]:
    """Keys over and over in transactions, of which every fourth is aborted; their last values as committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 5})
    producer.init_transactions(SECONDS_MAX)
    last: dict[bytes | None, bytes | None] = {}
    for number in range(ROUNDS):
        producer.begin_transaction()
        values: dict[bytes | None, bytes | None] = {
            b"key-%d" % key: b"%d-%d " % (number, key) * 20 for key in range(KEYS)
        }
        for place, (key, value) in enumerate(values.items()):
            producer.produce(topic, value, key, partition=place % PARTITIONS)
        if number % 4 == 3:
            assert producer.flush(SECONDS_MAX) == 0
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
            last |= values
    # The next record in each partition begins a segment, without which the last one would stay as it is.
    time.sleep(1)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        last[b"end-%d" % partition] = b"end"
        producer.produce(topic, b"end", b"end-%d" % partition, partition=partition)
    producer.commit_transaction(SECONDS_MAX)
    return last
