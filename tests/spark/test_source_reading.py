"""What a task of `format("odradek")` reads from a real broker, without a JVM: it is called as Spark calls it."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.errors import OptionError
from odradek_pipeline.source.batch import BatchReader
from odradek_pipeline.source.topics import DataLossError
from tests.support.peers import CreateTopic
from tests.support.samples import BASE_TIME_MS, SAMPLES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def at_cluster(bootstrap: str, work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    """Run `work` with a client of its own."""

    async def run() -> Any:
        async with Client(bootstrap) as client:
            return await work(client)

    return asyncio.run(run())


def fill(bootstrap: str, topic: str, count: int, *, partitions: int = 1, start: int = 0) -> None:
    """Values that are their number, a second apart in each partition."""

    async def send(client: Client) -> None:
        async with Producer(client, batch_bytes_max=1000) as producer:
            for number in range(start, start + count):
                await producer.send(
                    topic,
                    b"%d" % number,
                    partition=number % partitions,
                    timestamp_ms=BASE_TIME_MS + number // partitions * 1000,
                )

    at_cluster(bootstrap, send)


def read_all(bootstrap: str, topic: str, **options: str) -> list[dict[str, Any]]:
    """Rows of all ranges; the reader and the ranges are pickled on their way, as Spark does."""
    wanted = {"bootstrap.servers": bootstrap, **options}
    if not wanted.keys() & {"assign", "subscribe", "subscribePattern"}:
        wanted["subscribe"] = topic
    reader = BatchReader(wanted)
    ranges = pickle.loads(pickle.dumps(reader.partitions()))
    reader = pickle.loads(pickle.dumps(reader))
    return [row for one in ranges for batch in reader.read(one) for row in batch.to_pylist()]


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(int(row["value"]) for row in rows)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_nulls_headers_and_large_records_arrive_as_they_were(
    bootstrap: str, create_topic: CreateTopic, compression: str
) -> None:
    topic = create_topic(1)

    async def send(client: Client) -> None:
        async with Producer(client, compression=compression) as producer:
            for one in SAMPLES:
                await producer.send(
                    topic, one.value, key=one.key, headers=one.headers, timestamp_ms=one.timestamp_ms
                )

    at_cluster(bootstrap, send)
    rows = read_all(bootstrap, topic, includeHeaders="true")
    assert [(row["key"], row["value"], row["timestamp"].timestamp() * 1000) for row in rows] == [
        (one.key, one.value, one.timestamp_ms) for one in SAMPLES
    ]
    headers = [
        None if row["headers"] is None else tuple((one["key"], one["value"]) for one in row["headers"])
        for row in rows
    ]
    assert headers == [one.headers or None for one in SAMPLES]
    assert [(row["topic"], row["partition"], row["offset"], row["timestampType"]) for row in rows] == [
        (topic, 0, number, 0) for number in range(len(SAMPLES))
    ]


def test_the_brokers_time_is_the_time_of_its_topics(bootstrap: str, create_topic: CreateTopic) -> None:
    from tests.support.peers import topic_creator

    topic = topic_creator(bootstrap)(1, message_timestamp_type="LogAppendTime")
    fill(bootstrap, topic, 3)
    rows = read_all(bootstrap, topic)
    assert {row["timestampType"] for row in rows} == {1}
    assert all(row["timestamp"].timestamp() * 1000 > BASE_TIME_MS + 86_400_000 for row in rows)


def test_ranges_by_offsets_by_time_and_by_name(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic, other = create_topic(2, name=f"{unique}-a"), create_topic(1, name=f"{unique}-b")
    fill(bootstrap, topic, 200, partitions=2)
    fill(bootstrap, other, 10, start=1000)
    ends = {"0": 20, "1": -1}
    rows = read_all(
        bootstrap,
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({topic: ends}),
    )
    assert numbers(rows) == sorted([*range(20, 40, 2), *range(1, 200, 2)])
    times = {"startingTimestamp": str(BASE_TIME_MS + 30_000), "endingTimestamp": str(BASE_TIME_MS + 40_000)}
    assert numbers(read_all(bootstrap, topic, **times)) == list(range(60, 80))
    each = json.dumps({topic: {"0": BASE_TIME_MS + 90_000, "1": BASE_TIME_MS + 99_500}})
    with pytest.raises(OptionError, match=f"{topic}-1 have no record at that time"):
        read_all(bootstrap, topic, startingOffsetsByTimestamp=each)
    latest = {"startingOffsetsByTimestamp": each, "startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(read_all(bootstrap, topic, **latest)) == list(range(180, 200, 2))
    assert numbers(read_all(bootstrap, topic, assign=json.dumps({topic: [1]}))) == list(range(1, 200, 2))
    assert len(read_all(bootstrap, topic, subscribePattern=f"{unique}-[ab]")) == 210
    assert len(read_all(bootstrap, topic, subscribe=f"{topic}, {other}")) == 210
    reader = BatchReader({"bootstrap.servers": bootstrap, "subscribe": topic, "maxRecordsPerPartition": "30"})
    assert len(reader.partitions()) == 8
    assert numbers(read_all(bootstrap, topic, minPartitions="5", arrowBatchRows="7")) == list(range(200))


def test_arrow_batches_join_batches_of_the_log(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    fill(bootstrap, topic, 3000)
    reader = BatchReader({"bootstrap.servers": bootstrap, "subscribe": topic, "arrowBatchRows": "1000"})
    (wanted,) = reader.partitions()
    sizes = [batch.num_rows for batch in reader.read(wanted)]
    assert sum(sizes) == 3000
    assert all(size >= 1000 for size in sizes[:-1])
    reader = BatchReader({"bootstrap.servers": bootstrap, "subscribe": topic, "arrowBatchBytes": "10000"})
    assert max(batch.nbytes for batch in reader.read(wanted)) < 400_000


def test_readers_of_committed_records_see_no_others(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(1)

    async def committed() -> list[int]:
        rows = await asyncio.to_thread(read_all, bootstrap, topic, **{"isolation.level": "read_committed"})
        return numbers(rows)

    async def send(client: Client) -> list[int]:
        async with Producer(client, transactional_id=unique) as producer:
            for number in range(6):
                await producer.begin_transaction()
                for _ in range(3):
                    await producer.send(topic, b"%d" % number)
                await producer.flush()
                while_open = await committed()
                await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
            return while_open

    assert at_cluster(bootstrap, send) == [1] * 3 + [3] * 3
    assert asyncio.run(committed()) == [1] * 3 + [3] * 3 + [5] * 3
    assert len(read_all(bootstrap, topic)) == 18


def test_lost_records_are_named_or_left_out(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    fill(bootstrap, topic, 100)
    early = BatchReader({"bootstrap.servers": bootstrap, "subscribe": topic})
    lenient = BatchReader({"bootstrap.servers": bootstrap, "subscribe": topic, "failOnDataLoss": "false"})
    (planned,) = early.partitions()
    at_cluster(bootstrap, lambda client: Admin(client).logs.delete_records({TopicPartition(topic, 0): 40}))
    start = json.dumps({topic: {"0": 10}})
    with pytest.raises(
        DataLossError, match=f"truncated: {topic}-0 begins at offset 40 now, and offsets 10 to 39"
    ):
        read_all(bootstrap, topic, startingOffsets=start)
    assert numbers(read_all(bootstrap, topic, startingOffsets=start, failOnDataLoss="false")) == list(
        range(40, 100)
    )
    # The log was truncated after the plan.
    with pytest.raises(DataLossError, match="truncated"):
        list(early.read(planned))
    rows = [row for batch in lenient.read(planned) for row in batch.to_pylist()]
    assert numbers(rows) == list(range(40, 100))
    with pytest.raises(DataLossError, match=f"shortened: {topic}-0 ends at offset 100"):
        read_all(bootstrap, topic, endingOffsets=json.dumps({topic: {"0": 130}}))


def test_a_topic_created_again_is_another_topic(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    fill(bootstrap, topic, 10)
    reader = BatchReader({"bootstrap.servers": bootstrap, "subscribe": topic})
    (planned,) = reader.partitions()
    at_cluster(bootstrap, lambda client: Admin(client).topics.delete(topic))
    create_topic(1, name=topic)
    fill(bootstrap, topic, 10, start=500)
    with pytest.raises(DataLossError, match="recreated"):
        list(reader.read(planned))


def test_what_does_not_exist_is_named(bootstrap: str, create_topic: CreateTopic, unique: str) -> None:
    topic = create_topic(1)
    with pytest.raises(UnknownTopicOrPartition, match=unique):
        read_all(bootstrap, unique)
    with pytest.raises(UnknownTopicOrPartition, match="no partition 3"):
        read_all(bootstrap, topic, assign=json.dumps({topic: [3]}))
    with pytest.raises(OptionError, match=f"does not name {topic}-0"):
        read_all(bootstrap, topic, startingOffsets=json.dumps({unique: {"0": 1}}))
    assert read_all(bootstrap, topic) == []
    assert read_all(bootstrap, topic, subscribePattern="no-such-topic-.*") == []
