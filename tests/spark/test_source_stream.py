"""The stream reader of `format("odradek")`, called in Spark's order: bounded batches, restarts, topics that change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.client.admin.admin import Admin
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.errors import OptionError
from odradek_pipeline.source.progress import GroupProgress
from odradek_pipeline.source.stream import StreamReader
from odradek_pipeline.source.stream_offset import StreamOffset
from odradek_pipeline.source.topics import DataLossError
from tests.spark.test_source_reading import at_cluster, fill
from tests.support.peers import CreateTopic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


class Query:
    """What Spark does with a reader: offsets go through JSON, and `latestOffset` comes before `initialOffset`."""

    def __init__(self, bootstrap: str, topic: str, **options: str) -> None:
        given = {"bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
        if "subscribePattern" not in given:
            given["subscribe"] = topic
        self.reader = StreamReader(given)
        self.committed: str | None = None

    def batch(self) -> list[int] | None:
        """The numbers of the next batch's values; None where there is nothing new."""
        end = json.dumps(self.reader.latestOffset())
        if end == self.committed:
            return None
        return self.run(self.committed or json.dumps(self.reader.initialOffset()), end)

    def run(self, start: str, end: str) -> list[int]:
        ranges = self.reader.partitions(json.loads(start), json.loads(end))
        rows = [row for one in ranges for found in self.reader.read(one) for row in found.to_pylist()]
        self.committed = end
        return sorted(int(row["value"]) for row in rows)

    def resume(self, committed: str) -> None:
        """A restart after a batch that was committed."""
        self.committed = committed
        assert self.reader.partitions(json.loads(committed), json.loads(committed)) == []

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: Any) -> None:
        self.reader.stop()


def test_batches_are_bounded_and_end(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(2)
    fill(bootstrap, topic, 40, partitions=2)
    with Query(bootstrap, topic, maxOffsetsPerTrigger="15", minPartitions="4") as query:
        batches = [query.batch(), query.batch(), query.batch(), query.batch(), query.batch()]
        assert [None if one is None else len(one) for one in batches] == [15, 15, 10, None, None]
        assert sorted(number for one in batches if one for number in one) == list(range(40))
        fill(bootstrap, topic, 3, start=100)
        assert query.batch() == [100, 101, 102]
        text = query.committed
    assert text is not None
    fill(bootstrap, topic, 2, start=200)
    with Query(bootstrap, topic, maxOffsetsPerTrigger="15") as again:
        again.resume(text)
        assert again.batch() == [200, 201]
    with Query(bootstrap, topic, maxOffsetsPerTrigger="15", availableNow="true") as at_once:
        assert len(at_once.batch() or ()) == 45
        fill(bootstrap, topic, 1, start=300)
        assert at_once.batch() is None


def test_a_first_batch_is_replayed_from_where_it_began(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    fill(bootstrap, topic, 5)
    with Query(bootstrap, topic, startingOffsets="latest") as first:
        assert first.batch() == []
    with Query(bootstrap, topic, startingOffsets="latest") as query:
        query.reader.initialOffset()
        fill(bootstrap, topic, 3, start=10)
        end = json.dumps(query.reader.latestOffset())
    fill(bootstrap, topic, 2, start=20)
    with Query(bootstrap, topic, startingOffsets="latest") as replay:
        # Spark asks for the initial offset again, which is a later one by now.
        assert replay.run(json.dumps(replay.reader.initialOffset()), end) == [10, 11, 12]
        assert replay.batch() == [20, 21]


def test_offsets_are_the_same_text_for_the_same_position() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    one = StreamOffset({"a": "id-a", "b": "id-b"}, offsets)
    other = StreamOffset({"b": "id-b", "a": "id-a"}, dict(reversed(offsets.items())))
    assert json.dumps(one.as_json()) == json.dumps(other.as_json())
    assert StreamOffset.parse(json.loads(json.dumps(one.as_json()))) == one
    with pytest.raises(ValueError, match="did not write"):
        StreamOffset.parse({"0": 5})


def test_new_partitions_and_topics_are_read_from_their_beginning(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(1, name=f"{unique}-a")
    fill(bootstrap, topic, 2)
    with Query(bootstrap, topic, subscribePattern=f"{unique}-.*") as query:
        assert query.batch() == [0, 1]
        at_cluster(bootstrap, lambda client: Admin(client).topics.create_partitions(topic, total=2))
        fill(bootstrap, topic, 4, partitions=2, start=10)
        other = create_topic(1, name=f"{unique}-b")
        fill(bootstrap, other, 1, start=50)
        assert query.batch() == [10, 11, 12, 13, 50]


def test_changed_logs_are_named(bootstrap: str, create_topic: CreateTopic) -> None:
    topic, gone = create_topic(1), create_topic(1)
    for name in (topic, gone):
        fill(bootstrap, name, 30)
    with Query(bootstrap, topic, maxOffsetsPerTrigger="10") as query, Query(bootstrap, gone) as other:
        query.batch()
        other.batch()
        at_cluster(
            bootstrap, lambda client: Admin(client).logs.delete_records({TopicPartition(topic, 0): 25})
        )
        with pytest.raises(DataLossError, match=f"truncated: {topic}-0 begins at offset 25"):
            query.batch()
        at_cluster(bootstrap, lambda client: Admin(client).topics.delete(gone))
        with pytest.raises(DataLossError, match="deleted"):
            other.batch()
        create_topic(1, name=gone)
        fill(bootstrap, gone, 50, start=100)  # longer than the old log: only its id differs
        with pytest.raises(DataLossError, match="recreated"):
            other.batch()
        text = other.committed
    assert text is not None
    with Query(bootstrap, gone, failOnDataLoss="false") as lenient:
        lenient.resume(text)
        assert lenient.batch() == list(range(100, 150))


def test_progress_is_published_to_a_group(bootstrap: str, create_topic: CreateTopic, unique: str) -> None:
    topic = create_topic(1)
    fill(bootstrap, topic, 7)
    with Query(bootstrap, topic) as query:
        query.batch()

    class Source:
        endOffset = query.committed  # noqa: N815 (Spark's name)

    class Other:
        endOffset = '{"0": 5}'  # noqa: N815 (Spark's name)

    class Event:
        class progress:  # noqa: N801 (Spark's name)
            name = None
            sources = (Other, Source)

    GroupProgress(unique, {"bootstrap.servers": bootstrap}).onQueryProgress(Event)
    found = at_cluster(bootstrap, lambda client: Admin(client).groups.offsets(unique))
    assert {key: one.offset for key, one in found.items()} == {TopicPartition(topic, 0): 7}
    with pytest.raises(OptionError):
        GroupProgress(unique, {})
