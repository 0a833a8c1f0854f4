"""The writers that Spark calls: beside the driver before the tasks, in each task, and beside the driver at the end.

Of a batch of a stream Spark makes two writers. The first is pickled to the tasks, the second one is for `commit` or
`abort`. So a batch begins where a writer is pickled. What the second one needs of the first comes with the tasks'
messages.

Speculation cannot be seen from here, and does no harm to the rows. A second attempt has the same transactional id, so
the first one's transaction is aborted and the batch fails. `check_session` refuses it before a query begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.errors import OptionError
from odradek_pipeline.sink.driver import Begun, Ending, Written, begin
from odradek_pipeline.sink.rows import check_schema
from odradek_pipeline.sink.settings import SinkSettings, parse_options
from odradek_pipeline.sink.task import TaskPlace, write

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class TaskMessage(WriterCommitMessage):
    """The report of a task: what it has written, and the batch that it belongs to."""

    written: Written
    begun: Begun
    query: str
    batch: int


class SinkWriter:
    """The common part of both writers. Raises OptionError for options and columns that cannot be."""

    ending: type[Ending] = Ending

    def __init__(
        self, given: Mapping[str, str], schema: StructType, *, is_stream: bool, overwrite: bool
    ) -> None:
        if overwrite and not is_stream:
            raise OptionError("a topic is appended to and cannot be overwritten; use the mode 'append'")
        self._given = dict(given)
        self._settings = SinkSettings.of(given, is_stream=is_stream)
        self._begun: Begun | None = None
        check_schema(schema, self._settings.topic)

    def __getstate__(self) -> dict[str, Any]:
        """Begins the batch: Spark pickles a writer on its way to the tasks, and twice, so the first one counts."""
        if self._begun is None:
            options = parse_options(self._given)
            with ClientLoop(options) as loop:
                bootstrap = options.require("bootstrap.servers")
                self._begun = loop.run(begin(loop.client, self._settings, bootstrap))
        return dict(vars(self))

    def note_step(self, step: str) -> None:
        """Nothing; a test ends the process here."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of a task, in its worker."""
        context = TaskContext.get()
        assert context is not None, "Spark calls it in a task"
        place = TaskPlace(
            query=context.getLocalProperty(_QUERY_ID) or self._settings.sink,
            batch=int(context.getLocalProperty(_BATCH_ID) or 0),
            task=context.partitionId(),
        )
        return self.write_as(iterator, place)

    def write_as(self, iterator: Iterator[pa.RecordBatch], place: TaskPlace) -> TaskMessage:
        """As `write`, with the task's place."""
        assert self._begun is not None, "a writer is pickled before it comes to a task"
        with ClientLoop(parse_options(self._given)) as loop:
            written = write(iterator, loop, self._settings, self._begun, place, note_step=self.note_step)
        return TaskMessage(written, self._begun, place.query, place.batch)

    def end(self, messages: Sequence[WriterCommitMessage | None], *, is_commit: bool) -> None:
        """Commit or abort what the tasks have written. Messages of failed tasks are None."""
        found = [message for message in messages if isinstance(message, TaskMessage)]
        if not found:
            return  # a batch without tasks
        first = found[0]
        written = sorted((message.written for message in found), key=lambda one: one.task)
        with ClientLoop(parse_options(self._given)) as loop:
            ending = self.ending(loop.client, self._settings, first.begun, first.query, first.batch)
            loop.run(ending.commit(written) if is_commit else ending.abort(written))


class BatchWriter(SinkWriter, DataSourceArrowWriter):
    """`df.write.format("odradek")`."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        SinkWriter.__init__(self, given, schema, is_stream=False, overwrite=overwrite)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks have written."""
        self.end(messages, is_commit=True)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task failed, or the commit."""
        self.end(messages, is_commit=False)


class StreamWriter(SinkWriter, DataSourceStreamWriter, DataSourceArrowWriter):
    """`df.writeStream.format("odradek")`. Spark 4.0 gives Arrow batches to a writer of both classes."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        SinkWriter.__init__(self, given, schema, is_stream=True, overwrite=overwrite)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int = -1) -> None:
        """All tasks have written."""
        self.end(messages, is_commit=True)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int = -1) -> None:
        """A task failed, or the commit."""
        self.end(messages, is_commit=False)


def check_session(spark: SparkSession) -> None:
    """Refuse a session whose settings let batches of this sink fail. Raises OptionError.

    Speculation runs a task twice at once, and each attempt ends the other's transaction.
    """
    if spark.sparkContext.getConf().get("spark.speculation", "false").lower() == "true":
        raise OptionError(
            "spark.speculation is true: two attempts of a task at once would end each other's transactions; "
            "set it to false for queries that write with format('odradek')"
        )
