"""The reader of a stream: chooses the end of each batch and plans its ranges, in one process beside the driver.

Spark 4.0 has no read limit for Python sources. So `latest_offset` itself ends a batch after `maxOffsetsPerTrigger`. It
is called before `initialOffset` at the first start, and not at all for a batch that is replayed. `partitions` is what
says where the stream stands. Spark pickles the reader to the tasks, which have no use for its connection.

Left out: the commit of a source. It is called a batch late; `progress` publishes to a consumer group instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.settings.options import READING, Options
from odradek_pipeline.source.positions import parse_start, resolve
from odradek_pipeline.source.ranges import OffsetInputPartition, share_by_lag, split
from odradek_pipeline.source.reading import ReadSettings, read
from odradek_pipeline.source.stream_offset import StreamOffset
from odradek_pipeline.source.topics import KnownPartitions, TopicSubscription, check_starts, find, report

# A partition that was added later begins here: what was written to it before it was seen belongs to the stream.
_NEW_PARTITION_START = 0


class StreamReader(DataSourceStreamReader):
    """`options` are the user's. Raises OptionError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        parsed = Options(self._given, READING)
        TopicSubscription.of(parsed)
        parse_start(parsed, is_stream=True)
        self._settings = ReadSettings.of(parsed)
        self._offsets_max: int | None = parsed["maxOffsetsPerTrigger"]
        self._is_available_now: bool = parsed["availableNow"]
        self._loop: ClientLoop | None = None
        self._position: StreamOffset | None = None
        self._first: StreamOffset | None = None
        self._fixed_end: StreamOffset | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the position at which a stream without a checkpoint begins."""
        return self._start_offset().as_json()

    def latestOffset(self) -> dict[str, Any]:
        """The end of the next batch; the present position when there is nothing new."""
        if self._fixed_end is None:
            end = self._open_loop().run(self._find_end(self._position or self._start_offset()))
            if not self._is_available_now:
                return end.as_json()
            self._fixed_end = end
        return self._fixed_end.as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a batch. At a restart Spark asks with the end of the last batch twice, which has none."""
        since, until = StreamOffset.parse(start), StreamOffset.parse(end)
        self._position = until
        if start == end:
            return []
        options = Options(self._given, READING)
        ranges = self._open_loop().run(self._plan_ranges(since, until))
        return split(
            ranges,
            tasks_min=options["minPartitions"],
            records_max=options["maxRecordsPerPartition"],
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches of one range."""
        if not isinstance(partition, OffsetInputPartition):
            return iter(())
        return read(partition, Options(self._given, READING))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the checkpoint has the position."""

    def stop(self) -> None:
        """Close the connections. Also runs when the driver was killed, so it changes nothing elsewhere."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.__exit__(None, None, None)

    def _open_loop(self) -> ClientLoop:
        if self._loop is None:
            self._loop = ClientLoop(Options(self._given, READING)).__enter__()
        return self._loop

    def _start_offset(self) -> StreamOffset:
        if self._first is None:
            self._first = self._open_loop().run(self._find_start())
        return self._first

    async def _find_start(self) -> StreamOffset:
        options = Options(self._given, READING)
        known = await self._find()
        offsets = await resolve(
            self._open_loop().client,
            parse_start(options, is_stream=True),
            known.partitions,
            is_read_committed=self._settings.is_read_committed,
        )
        return StreamOffset(known.ids, offsets, is_initial=True)

    async def _find(self) -> KnownPartitions:
        return await find(self._open_loop().client, TopicSubscription.of(Options(self._given, READING)))

    async def _find_end(self, position: StreamOffset) -> StreamOffset:
        """The end of the batch that begins at `position`. Raises DataLossError."""
        try:
            known = await self._find()
        except UnknownTopicOrPartition as failure:
            report("deleted", str(failure), is_failing=self._settings.is_failing_on_loss)
            return position
        ends = await LogAdmin(self._open_loop().client).offsets_at(
            known.partitions, LATEST, read_committed=self._settings.is_read_committed
        )
        starts = self._check_starts(position, known, ends)
        keys = list(known.partitions)
        lags = [ends[key] - starts[key] for key in keys]
        if self._offsets_max is not None and not self._is_available_now:
            lags = share_by_lag(lags, self._offsets_max)
        offsets = {key: starts[key] + lag for key, lag in zip(keys, lags, strict=True)}
        ids = {name: known.ids[name] for name in {key.topic for key in keys}}
        if offsets == dict(position.offsets) and ids == dict(position.ids) and not position.is_initial:
            return position  # as the same text, so that Spark sees no new data
        return StreamOffset(ids, offsets, starts=position.offsets if position.is_initial else None)

    def _check_starts(
        self, position: StreamOffset, known: KnownPartitions, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return each partition's start. Raises DataLossError for one that was deleted, recreated or shortened."""
        is_failing = self._settings.is_failing_on_loss
        for name in sorted(position.ids.keys() & known.ids.keys()):
            if position.ids[name] != known.ids[name]:
                what = f"topic {name!r} was deleted and created again since the last batch"
                report("recreated", what, is_failing=is_failing)
        for key in sorted(position.offsets.keys() - set(known.partitions)):
            report("deleted", f"partition {key} is not there any more", is_failing=is_failing)
        starts = {key: _start_of(key, position, known.ids) for key in known.partitions}
        for key, start in starts.items():
            if start > ends[key]:
                what = f"{key} ends at offset {ends[key]}, and the stream stands at {start}"
                # A reader of committed records may be ahead of an end that waits for a transaction.
                if not self._settings.is_read_committed:
                    report("shortened", what, is_failing=is_failing)
                starts[key] = ends[key] if not self._settings.is_read_committed else start
        return starts

    async def _plan_ranges(self, since: StreamOffset, until: StreamOffset) -> list[OffsetInputPartition]:
        client, is_failing = self._open_loop().client, self._settings.is_failing_on_loss
        known = await self._find()
        for name, topic_id in until.ids.items():
            if known.ids.get(name) != topic_id:
                kind = "recreated" if name in known.ids else "deleted"
                report(kind, f"topic {name!r} is not the one that was to be read", is_failing=is_failing)
        if since.is_initial and until.starts is not None:
            since = StreamOffset(until.ids, until.starts)
        present = set(known.partitions)
        ends = {
            key: end
            for key, end in until.offsets.items()
            if key in present and known.ids.get(key.topic) == until.ids[key.topic]
        }
        starts = {key: _start_of(key, since, until.ids) for key in ends}
        starts = await check_starts(client, starts, ends, is_failing=is_failing)
        return [
            OffsetInputPartition(key.topic, key.partition, until.ids[key.topic], starts[key], ends[key])
            for key in sorted(ends)
        ]


def _start_of(key: TopicPartition, position: StreamOffset, ids: Mapping[str, str]) -> int:
    """A partition's offset; of a new one, or of one of a topic that was created again, its beginning."""
    if position.ids.get(key.topic) != ids.get(key.topic):
        return _NEW_PARTITION_START
    return position.offsets.get(key, _NEW_PARTITION_START)
