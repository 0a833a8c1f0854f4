"""The reader of a batch: plans ranges beside the driver, once, and reads each range in a task.

Spark pickles the reader to the tasks. So it holds options and no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.settings.options import READING, Options
from odradek_pipeline.source.positions import parse_end, parse_start, resolve
from odradek_pipeline.source.ranges import OffsetInputPartition, split
from odradek_pipeline.source.reading import ReadSettings, read
from odradek_pipeline.source.topics import TopicSubscription, check_starts, find


class BatchReader(DataSourceReader):
    """`options` are the user's. Raises OptionError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        parsed = Options(self._given, READING)
        TopicSubscription.of(parsed)
        parse_start(parsed, is_stream=False)
        parse_end(parsed)
        ReadSettings.of(parsed)

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges of the tasks. Raises OptionError, DataLossError, and the client's errors."""
        options = Options(self._given, READING)
        with ClientLoop(options) as loop:
            ranges = loop.run(_plan_ranges(loop, options))
        return split(
            ranges,
            tasks_min=options["minPartitions"],
            records_max=options["maxRecordsPerPartition"],
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of one range."""
        if not isinstance(partition, OffsetInputPartition):
            return iter(())  # Spark's stand-in for a read without any range
        return read(partition, Options(self._given, READING))


async def _plan_ranges(loop: ClientLoop, options: Options) -> list[OffsetInputPartition]:
    client, settings = loop.client, ReadSettings.of(options)
    known = await find(client, TopicSubscription.of(options))
    keys = known.partitions
    is_committed = settings.is_read_committed
    starts = await resolve(
        client, parse_start(options, is_stream=False), keys, is_read_committed=is_committed
    )
    ends = await resolve(client, parse_end(options), keys, is_read_committed=is_committed)
    starts = await check_starts(client, starts, ends, is_failing=settings.is_failing_on_loss)
    return [
        OffsetInputPartition(key.topic, key.partition, known.ids[key.topic], starts[key], ends[key])
        for key in keys
    ]
