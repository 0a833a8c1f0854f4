"""Parquet files as an output: files first, then the manifest that makes them part of the table.

A file that no manifest names is no part of the table. Plain `spark.read.parquet` of the folder would read such files
too, so a table is read with `read_table`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.errors import FencedError, PipelineError
from odradek_pipeline.outputs.columns import align_columns, is_in, no_rows, schema_with
from odradek_pipeline.outputs.output import Committed, OutputState
from odradek_pipeline.outputs.parquet.log import ManifestLog
from odradek_pipeline.outputs.parquet.manifests import DataFile, Manifest
from odradek_pipeline.outputs.parquet.store import FileStore, StoredFile, open_store
from odradek_pipeline.runs.ranges import OffsetRange, PartitionKey, span_ranges
from odradek_pipeline.runs.record import REPLACING, RETRY, RunRecord
from odradek_pipeline.runs.steps import PUBLISHED, PUBLISHING, WRITING, WRITTEN, Steps

_COLUMNS: Final = ("topic", "_topic_id", "partition", "offset")

DATA: Final = "data"


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class ParquetHistory:
    """The runs of a table by its manifests, which are read without Spark."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self.log = ManifestLog(store, clock_ms)

    def read_newest(self) -> OutputState:
        """By the newest manifest alone."""
        found = self.log.read_newest()
        return OutputState(None, 0) if found is None else OutputState(found.record, found.version)

    def list_runs(self, count_max: int | None) -> Sequence[Committed]:
        """By the manifests, one small file for each run."""
        newest = self.log.read_newest()
        if newest is None:
            return []
        return [_parse_commit(one) for one in islice(self.log.read_history(newest.version), count_max)]


class ParquetOutput(ParquetHistory):
    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(open_store(spark, location))
        self._spark = spark

    def commit(self, known: OutputState, record: RunRecord, rows: DataFrame, steps: Steps) -> Committed:
        """Write the files, then publish their manifest. Files of a run that failed are removed, or left to a vacuum."""
        taken: list[DataFile] = []
        if record.kind in REPLACING:
            taken = _find_overlapping(self.log.list_live(known.version).values(), record.replacing)
            rows = self._add_survivors(align_columns(rows, record.columns), taken, record)
        folder = f"{DATA}/{record.run}"
        steps(WRITING)
        try:
            added = self._write(align_columns(rows, record.columns), folder) if record.ranges else []
            _require_within(added, record, taken)
        except Exception:
            self._store.remove(folder)  # no manifest names it
            raise
        steps(WRITTEN, files=len(added), rows=_rows(added, record))
        steps(PUBLISHING)
        try:
            manifest = self.log.publish(known.version, record, added, [one.path for one in taken])
        except FencedError:
            self._store.remove(folder)
            raise
        steps(PUBLISHED)
        self.log.make_checkpoint(manifest.version)
        return _parse_commit(manifest)

    def read_rows(self) -> DataFrame | None:
        newest = self.log.read_newest()
        if newest is None:
            return None
        return self._read(self.log.list_live(newest.version).values(), newest.record.columns)

    def _read(self, files: Iterable[DataFile], columns: Sequence[Mapping[str, Any]]) -> DataFrame:
        paths = [self._store.url(one.path) for one in files]
        if not paths:
            return no_rows(self._spark, columns)
        return self._spark.read.schema(schema_with(columns)).parquet(*paths)

    def _add_survivors(self, rows: DataFrame, taken: Sequence[DataFile], record: RunRecord) -> DataFrame:
        """`rows` with what is not replaced of the files that a range splits. Each such file is one task."""
        split = [one for one in taken if not any(range_.contains(one.held) for range_ in record.replacing)]
        around = f"not ({is_in(record.replacing)})"
        survivors = [self._read([one], record.columns).where(around).coalesce(1) for one in split]
        return reduce(DataFrame.unionByName, survivors, rows)

    def _write(self, rows: DataFrame, folder: str) -> list[DataFile]:
        writer = rows.write.mode("errorifexists")
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(
            self._store.url(folder)
        )
        stored = [one for one in self._store.list_files(folder) if one.path.endswith(".parquet")]
        added = read_data_files(self._spark, self._store, stored)
        kept = {one.path for one in added}
        for one in stored:
            if one.path not in kept:
                self._store.remove(one.path)
        self._store.sync_files(sorted(kept))
        return added


def read_table(spark: SparkSession, location: str) -> DataFrame:
    """The rows of a Parquet output: those of its live files, and no others. Raises PipelineError without a table."""
    found = ParquetOutput(spark, location).read_rows()
    if found is None:
        raise PipelineError(f"{location} is no output of odradek-pipeline: it has no manifest")
    return found


def _find_overlapping(files: Iterable[DataFile], ranges: Sequence[OffsetRange]) -> list[DataFile]:
    return [one for one in files if any(one.held.overlaps(range_) for range_ in ranges)]


def _require_within(added: Sequence[DataFile], record: RunRecord, taken: Sequence[DataFile]) -> None:
    """Raises PipelineError when a reader returned a row that was not asked for."""
    allowed = [*_whole_ranges(record), *(one.held for one in taken)]
    for one in added:
        if not any(range_.contains(one.held) for range_ in allowed):
            raise PipelineError(
                f"the reader returned {one.held}, which is in no range of run {record.run}: nothing was committed"
            )


def _rows(added: Iterable[DataFile], record: RunRecord) -> int:
    """The rows that were read, without survivors: a survivor's file lies outside the ranges, or around one."""
    whole = _whole_ranges(record)
    return sum(one.rows for one in added if any(range_.contains(one.held) for range_ in whole))


def _whole_ranges(record: RunRecord) -> Sequence[OffsetRange]:
    """The ranges of a run, as its files may span them: a retry has many small ones, and a file for a partition."""
    return span_ranges(record.ranges) if record.kind == RETRY else record.replacing


def _parse_commit(manifest: Manifest) -> Committed:
    return Committed(
        record=manifest.record,
        version=manifest.version,
        rows=_rows(manifest.added, manifest.record),
        size_bytes=sum(one.size_bytes for one in manifest.added),
        files=len(manifest.added),
    )


def read_data_files(spark: SparkSession, store: FileStore, files: Iterable[StoredFile]) -> list[DataFile]:
    """The content of Parquet files, by their footers alone: rows, the partition, the first and the last offset.

    The footer is read through Spark's JVM, which can read it wherever Spark writes.

    The files with rows, each with what it holds. Raises PipelineError for one with rows of two partitions.
    """
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    found = []
    for one in files:
        rows, bounds = _read(jvm, configuration, store.url(one.path))
        if rows == 0:
            continue
        for name in _COLUMNS[:3]:
            if bounds[name][0] != bounds[name][1]:
                raise PipelineError(
                    f"{one.path} has rows of two partitions: a reader's task reads one partition"
                )
        key = PartitionKey(bounds["topic"][0], bounds["_topic_id"][0], int(bounds["partition"][0]))
        held = OffsetRange(key, int(bounds["offset"][0]), int(bounds["offset"][1]) + 1)
        found.append(DataFile(one.path, held, rows, one.size_bytes))
    return found


def _read(jvm: Any, configuration: Any, url: str) -> tuple[int, dict[str, tuple[Any, Any]]]:
    hadoop = jvm.org.apache.parquet.hadoop
    path = jvm.org.apache.hadoop.fs.Path(url)
    reader = hadoop.ParquetFileReader.open(hadoop.util.HadoopInputFile.fromPath(path, configuration))
    try:
        rows = 0
        bounds: dict[str, tuple[Any, Any]] = {}
        for block in reader.getFooter().getBlocks():
            rows += int(block.getRowCount())
            for column in block.getColumns():
                name = column.getPath().toDotString()
                if name in _COLUMNS:
                    statistics = column.getStatistics()
                    low, high = _value(statistics.genericGetMin()), _value(statistics.genericGetMax())
                    before = bounds.get(name, (low, high))
                    bounds[name] = (min(low, before[0]), max(high, before[1]))
        return rows, bounds
    finally:
        reader.close()


def _value(given: Any) -> Any:
    """A number as it is; a text from Parquet's Binary."""
    return given if isinstance(given, int) else str(given.toStringUsingUTF8())
