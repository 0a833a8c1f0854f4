"""The rows of a table by Spark alone, without a UDF: counts by window for the tier `loaded`, and spans of offsets."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window, functions

from odradek.client.audit.counts import DIGEST_BITS, Counts
from odradek_pipeline.audit.facts import WindowOfPartition
from odradek_pipeline.audit.spans import Span
from odradek_pipeline.audit.state import TierState
from odradek_pipeline.runs.ranges import PartitionKey

# A digest is summed in two halves, so that a bigint holds the sum of billions of them.
_HALF_BITS: Final = DIGEST_BITS // 2
_HALF_MASK: Final = (1 << _HALF_BITS) - 1


def digest_of_rows() -> Column:
    """The digest of a row with the columns of a loaded record, as `odradek.client.audit.counts` defines it."""
    headers = functions.expr(
        "coalesce(aggregate(headers, x'', (text, one) -> concat(text, "
        "encode(concat(length(encode(one.key, 'UTF-8')), ':'), 'UTF-8'), encode(one.key, 'UTF-8'), "
        "encode(concat(coalesce(cast(length(one.value) as string), '-1'), ':'), 'UTF-8'), coalesce(one.value, x''))), "
        "x'')"
    )
    text = functions.concat(
        _bytes(functions.concat(functions.expr("unix_millis(timestamp)"), functions.lit(":"))),
        _size_and_bytes("key"),
        _size_and_bytes("value"),
        _bytes(functions.expr("concat(if(headers is null, 0, size(headers)), ':')")),
        headers,
    )
    hexadecimal = functions.substring(functions.md5(text), 1, DIGEST_BITS // 4)
    return functions.conv(hexadecimal, 16, 10).cast("bigint")


def _size_and_bytes(column: str) -> Column:
    length = functions.expr(f"concat(coalesce(cast(length({column}) as string), '-1'), ':')")
    return functions.concat(_bytes(length), functions.coalesce(functions.col(column), functions.expr("x''")))


def _bytes(text: Column) -> Column:
    return functions.encode(text, "UTF-8")


def counts_of_rows(rows: DataFrame, window_ms: int) -> DataFrame:
    """One row for each window of each partition of each topic."""
    time = functions.expr("unix_millis(timestamp)")
    width = functions.lit(window_ms)
    return (
        rows.select(
            "topic",
            "_topic_id",
            "partition",
            "offset",
            (time - functions.pmod(time, width)).alias("start_ms"),
            functions.expr("coalesce(length(key), 0) + coalesce(length(value), 0)").alias("bytes"),
            digest_of_rows().alias("digest"),
        )
        .groupBy("topic", "_topic_id", "partition", "start_ms")
        .agg(
            functions.count("*").alias("count"),
            functions.sum("bytes").alias("bytes"),
            functions.expr("bit_xor(digest)").alias("xor"),
            functions.sum(functions.expr(f"digest & {_HALF_MASK}")).alias("low"),
            functions.sum(functions.expr(f"shiftright(digest, {_HALF_BITS})")).alias("high"),
            functions.min("offset").alias("first"),
            functions.max("offset").alias("last"),
        )
    )


def parse_counts(rows: list[Any]) -> dict[WindowOfPartition, Counts]:
    """The collected rows of one topic as counts."""
    mask = (1 << DIGEST_BITS) - 1
    return {
        WindowOfPartition(one.partition, one.start_ms): Counts(
            count=one["count"],
            size_bytes=one.bytes,
            xor_hash=one.xor,
            sum_hash=((one.high << _HALF_BITS) + one.low) & mask,
            first_offset=one.first,
            last_offset=one.last,
        )
        for one in rows
    }


def count_table(rows: DataFrame, tier: TierState, window_ms: int, since_ms: int) -> int:
    """Set what `tier` has to what the table holds now of its topic, from a time on. Returns how many rows."""
    wanted = rows.where(
        (functions.col("topic") == tier.topic) & (functions.col("_topic_id") == tier.topic_id)
    )
    if since_ms > 0:
        wanted = wanted.where(functions.col("timestamp") >= functions.expr(f"timestamp_millis({since_ms})"))
    tier.counts = parse_counts(counts_of_rows(wanted, window_ms).collect())
    tier.high_time_ms = max((at.start_ms for at in tier.counts), default=-1)
    return sum(one.count for one in tier.counts.values())


def join_offsets(offsets: DataFrame) -> DataFrame:
    """Rows of (topic, _topic_id, partition, offset), each once, as their spans: a driver sees spans and no rows."""
    keys = ("topic", "_topic_id", "partition")
    order = Window.partitionBy(*keys).orderBy("offset")
    return (
        offsets.withColumn("island", functions.col("offset") - functions.row_number().over(order))
        .groupBy(*keys, "island")
        .agg(functions.min("offset").alias("first"), functions.max("offset").alias("last"))
    )


def read_row_spans(rows: DataFrame) -> tuple[dict[PartitionKey, list[Span]], dict[PartitionKey, list[Span]]]:
    """The spans of a table's rows, and those of offsets that it has more than once."""
    counted = rows.groupBy("topic", "_topic_id", "partition", "offset").count()
    return _collect_spans(join_offsets(counted.drop("count"))), _collect_spans(
        join_offsets(counted.where("count > 1").drop("count"))
    )


def _collect_spans(frame: DataFrame) -> dict[PartitionKey, list[Span]]:
    found: dict[PartitionKey, list[Span]] = {}
    for one in frame.collect():
        key = PartitionKey(one.topic, one["_topic_id"], one.partition)
        found.setdefault(key, []).append((one["first"], one["last"] + 1))
    return found
