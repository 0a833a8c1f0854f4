"""The sink of `format("odradek")` without a JVM: batches, replays and drivers that die, against a real broker.

The writers are called in Spark's order, pickled where Spark pickles them. A death is an exception behind which nothing
is undone. What is in a topic is read by kafka-python, for committed records.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from odradek_pipeline.errors import OptionError
from odradek_pipeline.sink import driver
from odradek_pipeline.sink.cleanup import clean_up
from odradek_pipeline.sink.driver import Ending, PlanNotDeterministicError, SinkFencedError
from odradek_pipeline.sink.task import OldCheckpointError, TaskPlace
from odradek_pipeline.sink.writers import BatchWriter, StreamWriter, TaskMessage
from tests.support.peers import CreateTopic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
QUERY = "11111111-2222-3333-4444-555555555555"
SECONDS_MAX = 60

Rows = Sequence[Sequence[bytes]]


class KilledError(BaseException):
    """The process ends here."""


def kill_at(step: str) -> tuple[type[StreamWriter], type[Ending]]:
    """Classes that end at a step."""

    def note_step(self: Any, name: str) -> None:
        if name == step:
            raise KilledError(name)

    ending = type("KilledEnding", (Ending,), {"note_step": note_step})
    return type("KilledWriter", (StreamWriter,), {"note_step": note_step, "ending": ending}), ending


class Driver:
    """A Spark driver with one stream into one topic; `options` are the sink's."""

    def __init__(self, bootstrap: str, topic: str, sink: str, **options: str) -> None:
        self.options = {"bootstrap.servers": bootstrap, "topic": topic, "sinkId": sink, **options}
        self.epochs: dict[Any, Any] = {}

    def begin(self) -> StreamWriter:
        """The writer as it comes to the tasks."""
        driver._EPOCHS.clear()  # they belong to a process, and each driver here stands for one
        driver._EPOCHS.update(self.epochs)
        writer = StreamWriter(self.options, SCHEMA, False)
        sent: StreamWriter = pickle.loads(pickle.dumps(writer))
        self.epochs = dict(driver._EPOCHS)
        return sent

    def tasks(self, writer: StreamWriter, batch: int, rows: Rows, *, query: str = QUERY) -> list[TaskMessage]:
        return [
            pickle.loads(pickle.dumps(writer.write_as(arrow(values), TaskPlace(query, batch, number))))
            for number, values in enumerate(rows)
        ]

    def commit(
        self, messages: Sequence[TaskMessage], batch: int, kind: type[StreamWriter] = StreamWriter
    ) -> None:
        kind(self.options, SCHEMA, False).commit(messages, batch)

    def run(self, batch: int, rows: Rows) -> None:
        """One whole batch."""
        self.commit(self.tasks(self.begin(), batch, rows), batch)


def arrow(values: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    columns = [pa.array([b"k"] * len(values), pa.binary()), pa.array(list(values), pa.binary())]
    yield pa.RecordBatch.from_arrays(columns, names=["key", "value"])


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values that kafka-python reads for committed records, sorted; up to the last stable offset."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", consumer_timeout_ms=1000
    )
    try:
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while any(consumer.position(part) < ends[part] for part in parts):
            assert time.monotonic() < deadline, "the log did not end"
            for records in consumer.poll(timeout_ms=500).values():
                found += [record.value for record in records]
        return sorted(found)
    finally:
        consumer.close()


def batch_rows(batch: int, tasks: int = 3, count: int = 20) -> list[list[bytes]]:
    return [[b"%d-%d-%02d" % (batch, task, number) for number in range(count)] for task in range(tasks)]


def flat(*batches: Rows) -> list[bytes]:
    return sorted(value for rows in batches for values in rows for value in values)


STEPS = ("flushed", "plan", "task-0", "task-2", "batch")


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_at_a_step_writes_each_row_once(
    bootstrap: str, create_topic: CreateTopic, unique: str, step: str
) -> None:
    topic = create_topic(2)
    first = Driver(bootstrap, topic, unique)
    first.run(0, batch_rows(0))
    writer = first.begin()
    killed, _ = kill_at(step)
    if step == "flushed":
        for number, values in enumerate(batch_rows(1)):
            one = pickle.loads(pickle.dumps(writer))
            one.__class__ = killed
            with pytest.raises(KilledError):
                one.write_as(arrow(values), TaskPlace(QUERY, 1, number))
    else:
        with pytest.raises(KilledError):
            first.commit(first.tasks(writer, 1, batch_rows(1)), 1, killed)
    second = Driver(bootstrap, topic, unique)
    second.run(1, batch_rows(1))
    assert committed(bootstrap, topic) == flat(batch_rows(0), batch_rows(1))
    second.run(1, batch_rows(1))  # it died before Spark's commit log
    second.run(2, batch_rows(2))
    assert committed(bootstrap, topic) == flat(batch_rows(0), batch_rows(1), batch_rows(2))


def test_many_batches_of_one_driver_and_empty_tasks(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(1)
    one = Driver(bootstrap, topic, unique)
    expected = []
    for batch in range(4):
        rows = [*batch_rows(batch, tasks=batch), []]
        one.run(batch, rows)
        expected.append(rows)
    one.commit([], 4)  # a batch without tasks
    assert committed(bootstrap, topic) == flat(*expected)


def test_a_killed_drivers_transactions_are_dropped_when_the_next_begins(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(1)
    first = Driver(bootstrap, topic, unique)
    messages = first.tasks(first.begin(), 0, batch_rows(0, tasks=5))
    second = Driver(bootstrap, topic, unique)
    writer = second.begin()  # the next plan has fewer tasks: two of the five ids are not begun again
    second.commit(second.tasks(writer, 0, batch_rows(0)), 0)
    assert committed(bootstrap, topic) == flat(batch_rows(0))
    with pytest.raises(PlanNotDeterministicError):
        first.commit(messages, 0)  # the batch is whole, and has other tasks
    assert committed(bootstrap, topic) == flat(batch_rows(0))


def test_a_zombie_driver_is_refused_wherever_it_wakes_up(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(1)
    zombie = Driver(bootstrap, topic, unique)
    zombie.run(0, batch_rows(0))
    writer = zombie.begin()
    messages = zombie.tasks(writer, 1, batch_rows(1))
    new = Driver(bootstrap, topic, unique)
    new_writer = new.begin()
    new_messages = new.tasks(new_writer, 1, batch_rows(1))
    with pytest.raises(SinkFencedError, match="another driver"):
        zombie.tasks(writer, 1, batch_rows(1))
    with pytest.raises(SinkFencedError, match="another driver"):
        zombie.commit(messages, 1)
    StreamWriter(zombie.options, SCHEMA, False).abort(messages, 1)
    new.commit(new_messages, 1)
    with pytest.raises(SinkFencedError, match="another driver"):
        zombie.begin()
    new.run(2, batch_rows(2))
    assert committed(bootstrap, topic) == flat(batch_rows(0), batch_rows(1), batch_rows(2))


def test_abort_after_a_commit_undoes_nothing(bootstrap: str, create_topic: CreateTopic, unique: str) -> None:
    topic = create_topic(1)
    one = Driver(bootstrap, topic, unique)
    messages = one.tasks(one.begin(), 0, batch_rows(0))
    killed, _ = kill_at("batch")
    with pytest.raises(KilledError):
        one.commit(messages, 0, killed)  # its answer is lost
    StreamWriter(one.options, SCHEMA, False).abort(messages, 0)
    assert committed(bootstrap, topic) == flat(batch_rows(0))
    messages = one.tasks(one.begin(), 1, batch_rows(1))
    StreamWriter(one.options, SCHEMA, False).abort([*messages, None], 1)
    assert committed(bootstrap, topic) == flat(batch_rows(0))
    one.run(1, batch_rows(1))
    assert committed(bootstrap, topic) == flat(batch_rows(0), batch_rows(1))


def test_other_rows_at_a_replay_are_refused(bootstrap: str, create_topic: CreateTopic, unique: str) -> None:
    topic = create_topic(1)
    first = Driver(bootstrap, topic, unique)
    killed, _ = kill_at("task-0")
    with pytest.raises(KilledError):
        first.commit(first.tasks(first.begin(), 0, batch_rows(0)), 0, killed)
    second = Driver(bootstrap, topic, unique)
    writer = second.begin()
    other = batch_rows(0)
    other[0][3] = b"another row"
    with pytest.raises(PlanNotDeterministicError, match="plan is not deterministic"):
        second.tasks(writer, 0, other)
    more = [*batch_rows(0), [b"a task more"]]
    with pytest.raises(PlanNotDeterministicError, match=r"60 rows in 3 tasks .* 61 in 4"):
        messages = second.tasks(second.begin(), 0, more)
        second.commit(messages, 0)
    StreamWriter(second.options, SCHEMA, False).abort(messages, 0)
    second.run(0, [list(reversed(values)) for values in batch_rows(0)])  # a shuffle may bring another order
    assert committed(bootstrap, topic) == flat(batch_rows(0))
    second.run(1, batch_rows(1))
    with pytest.raises(OldCheckpointError, match="older than the topic"):
        second.run(0, batch_rows(0))


def test_a_new_checkpoint_writes_its_own_batches(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(1)
    one = Driver(bootstrap, topic, unique)
    one.run(0, batch_rows(0))
    again = one.tasks(one.begin(), 0, batch_rows(5), query="another query")
    one.commit(again, 0)
    assert committed(bootstrap, topic) == flat(batch_rows(0), batch_rows(5))


def test_a_named_batch_job_is_written_once(bootstrap: str, create_topic: CreateTopic, unique: str) -> None:
    topic = create_topic(1)

    def run(**options: str) -> None:
        given = {"bootstrap.servers": bootstrap, "topic": topic, **options}
        writer = pickle.loads(pickle.dumps(BatchWriter(given, SCHEMA, False)))
        sink = writer._settings.sink
        messages = [
            writer.write_as(arrow(values), TaskPlace(sink, 0, n)) for n, values in enumerate(batch_rows(0))
        ]
        writer.commit(messages)

    run(sinkId=unique)
    run(sinkId=unique)
    assert committed(bootstrap, topic) == flat(batch_rows(0))
    run()
    assert committed(bootstrap, topic) == flat(batch_rows(0), batch_rows(0))


def test_cleaning_up_frees_readers_and_removes_markers(
    bootstrap: str, create_topic: CreateTopic, unique: str
) -> None:
    topic = create_topic(1)
    one = Driver(bootstrap, topic, unique)
    one.run(0, batch_rows(0))
    one.tasks(one.begin(), 1, batch_rows(1))
    assert clean_up(one.options) == 3 + 5
    assert clean_up(one.options) == 0
    Driver(bootstrap, topic, f"{unique}-2").run(0, batch_rows(2))
    assert committed(bootstrap, topic) == flat(batch_rows(0), batch_rows(2))


def refused(bootstrap: str, words: str, columns: StructType | None = None, /, **options: str) -> None:
    schema = SCHEMA if columns is None else columns
    with pytest.raises(OptionError, match=words):
        pickle.dumps(StreamWriter({"bootstrap.servers": bootstrap, **options}, schema, False))


def test_what_cannot_be_is_refused_before_a_row_is_written(bootstrap: str, unique: str) -> None:
    given = {"topic": unique, "sinkId": unique}
    refused(bootstrap, "transaction.max.timeout.ms", None, **given, **{"transaction.timeout.ms": "100000000"})
    refused(bootstrap, "checkpointLocation", None, topic=unique)
    refused(bootstrap, "no topic is named", None, sinkId=unique)
    refused(bootstrap, "needs one named 'value'", StructType([]), **given)
    wrong = StructType([*SCHEMA, StructField("colour", BinaryType())])
    refused(bootstrap, "'colour' has no place", wrong, **given)
    refused(bootstrap, "did you mean topic", None, topics=unique)
    with pytest.raises(OptionError, match="cannot be overwritten"):
        BatchWriter({"bootstrap.servers": bootstrap, "topic": unique}, SCHEMA, True)
