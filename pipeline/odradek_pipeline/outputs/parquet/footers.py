"""The content of Parquet files, by their footers alone: rows, the partition, the first and the last offset.

The footer is read through Spark's JVM, which can read it wherever Spark writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import SparkSession

from odradek_pipeline.errors import PipelineError
from odradek_pipeline.outputs.parquet.manifests import DataFile
from odradek_pipeline.outputs.parquet.store import Store, StoredFile
from odradek_pipeline.runs.ranges import OffsetRange, PartitionKey

_COLUMNS: Final = ("topic", "_topic_id", "partition", "offset")


def data_files(spark: SparkSession, store: Store, files: Iterable[StoredFile]) -> list[DataFile]:
    """The files with rows, each with what it holds. Raises PipelineError for one with rows of two partitions."""
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
