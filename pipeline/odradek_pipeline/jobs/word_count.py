"""A streaming word count: the words of one topic's values, counted, into another topic as word and count.

The target holds the newest count of a word in its last record for that key, which is what a compacted topic keeps. The
checkpoint holds how far the source was read and the counts. Keep it on a volume that outlives the driver. The next
driver then continues where this one ended, whatever ended it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

from odradek_pipeline.connection.session import SparkConnection, run_job


def start(
    spark: SparkSession,
    connection: SparkConnection,
    *,
    source: str,
    target: str,
    checkpoint: str,
    seconds: float | None,
    records_per_batch: int | None = None,
) -> StreamingQuery:
    """Begin to count; without `seconds` the query ends when it has counted what is there."""
    reader = spark.readStream.format("kafka").options(**connection.for_reading())
    if records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(records_per_batch))
    # The start counts for a query's first run only; later its checkpoint does.
    records = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    return _write_to_topic(counts(words(records)), connection, target, checkpoint=checkpoint, seconds=seconds)


def _write_to_topic(
    rows: DataFrame, connection: SparkConnection, topic: str, *, checkpoint: str, seconds: float | None
) -> StreamingQuery:
    """Start writing the columns `key` and `value`: rows that changed, at least once, as the connector does it.

    With `seconds` a batch begins that often and the query runs until it is stopped. Without, it ends after the
    records that were in the source when it began.
    """
    writer = rows.writeStream.format("kafka").options(**connection.for_writing()).option("topic", topic)
    writer = writer.outputMode("update").option("checkpointLocation", checkpoint)
    if seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(seconds * 1000)} milliseconds").start()


def words(records: DataFrame) -> DataFrame:
    """The words of the records' values, in lower case: one column, `word`. Values are read as UTF-8."""
    text = functions.lower(functions.col("value").cast("string"))
    return records.select(functions.explode(functions.split(text, r"[^\p{L}\p{N}]+")).alias("word")).where(
        "word != ''"
    )


def counts(of_words: DataFrame) -> DataFrame:
    """The counts of words, as the rows of a topic: the word as `key`, its count as `value`."""
    counted = of_words.groupBy("word").count()
    return counted.select(
        functions.col("word").alias("key"), functions.col("count").cast("string").alias("value")
    )


def parse_arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="word_count", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", required=True, help="the topic whose values are counted")
    parser.add_argument(
        "--target", required=True, help="the topic that gets the counts; best a compacted one"
    )
    parser.add_argument("--checkpoint", required=True, help="folder or URL that outlives the driver")
    parser.add_argument(
        "--records-per-batch", type=int, metavar="N", help="at most; without it all there are"
    )
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--seconds", type=float, default=10.0, metavar="N", help="a batch that often")
    how_long.add_argument("--once", action="store_true", help="end when what is there has been counted")
    return parser.parse_args(given)


def main() -> int:
    """It ends with --once, or when its query fails."""
    wanted = parse_arguments(sys.argv[1:])

    def count(spark: SparkSession, connection: SparkConnection) -> dict[str, object]:
        query = start(
            spark,
            connection,
            source=wanted.source,
            target=wanted.target,
            checkpoint=wanted.checkpoint,
            seconds=None if wanted.once else wanted.seconds,
            records_per_batch=wanted.records_per_batch,
        )
        query.awaitTermination()
        records = sum(progress.numInputRows for progress in query.recentProgress)
        return {"source": wanted.source, "target": wanted.target, "records": records}

    return run_job("word_count", count)


if __name__ == "__main__":
    sys.exit(main())
