"""Bad rows as dead letters, and dead letters as rows again: frames to frames."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, functions

from odradek_pipeline.dead_letters import headers as names
from odradek_pipeline.outputs.columns import RUN, TOPIC_ID
from odradek_pipeline.work.decoding.decoder import ERROR, SCHEMA_LABEL

LETTER_COLUMNS: Final = ("topic", "partition", "key", "value", "headers")
_ENTRY: Final = "struct<key:string,value:binary>"
_DLQ: Final = ", ".join(f"'{name}'" for name in names.NAMES)
_HEADERS: Final = f"coalesce(headers, cast(array() as array<{_ENTRY}>))"


def make_letters(bad: DataFrame, topic: Column, partitions: int) -> DataFrame:
    """Rows with an error as records of a dead-letter topic: the columns of `LETTER_COLUMNS`.

    `topic` is the letters' topic, which has `partitions`. Letters of one partition keep their order.
    """
    own = functions.expr(f"filter({_HEADERS}, one -> one.key not in ({_DLQ}))")
    added = functions.array(
        _header(names.TOPIC, functions.col("topic")),
        _header(names.TOPIC_ID, functions.col(TOPIC_ID)),
        _header(names.PARTITION, functions.col("partition")),
        _header(names.OFFSET, functions.col("offset")),
        _header(names.TIMESTAMP, functions.unix_millis("timestamp")),
        _header(names.RUN, functions.col(RUN)),
        _header(names.ERROR, functions.substring(ERROR, 1, names.ERROR_CHARACTERS_MAX)),
        _header(names.SCHEMA, functions.col(SCHEMA_LABEL)),
        _header(names.ATTEMPT, count_attempts() + 1),
    )
    return bad.select(
        topic.alias("topic"),
        (functions.col("partition") % partitions).alias("partition"),
        "key",
        "value",
        functions.concat(own, added.cast(f"array<{_ENTRY}>")).alias("headers"),
    )


def count_attempts() -> Column:
    """The number of earlier tries of a row: its header's, or 0."""
    said = functions.expr(f"try_cast(cast({_last(names.ATTEMPT)} as string) as int)")
    return functions.coalesce(said, functions.lit(0))


def without_attempt(rows: DataFrame) -> DataFrame:
    """`rows` with the headers of their records alone; null where there are none, as a reader has it."""
    own = f"filter({_HEADERS}, one -> one.key != '{names.ATTEMPT}')"
    return rows.withColumn("headers", functions.expr(f"if(size({own}) = 0, null, {own})"))


def restore_origins(records: DataFrame) -> DataFrame:
    """Records of a dead-letter topic as the rows that they were read as: the columns of a read, and `_topic_id`.

    The header of the attempt stays. Records that are no dead letters are left out.
    """

    def parse_header(name: str, kind: str) -> Column:
        return functions.expr(f"try_cast(cast({_last(name)} as string) as {kind})")

    kept = ", ".join(f"'{name}'" for name in names.NAMES if name != names.ATTEMPT)
    found = records.select(
        "key",
        "value",
        parse_header(names.TOPIC, "string").alias("topic"),
        parse_header(names.PARTITION, "int").alias("partition"),
        parse_header(names.OFFSET, "bigint").alias("offset"),
        functions.timestamp_millis(parse_header(names.TIMESTAMP, "bigint")).alias("timestamp"),
        functions.expr(f"filter({_HEADERS}, one -> one.key not in ({kept}))").alias("headers"),
        parse_header(names.TOPIC_ID, "string").alias(TOPIC_ID),
    )
    return found.where(
        "topic is not null and partition is not null and offset is not null and timestamp is not null "
        f"and {TOPIC_ID} is not null"
    )


def _header(name: str, value: Column) -> Column:
    return functions.struct(
        functions.lit(name).alias("key"), value.cast("string").cast("binary").alias("value")
    )


def _last(name: str) -> str:
    """SQL of the value of the last header with this name; null without one."""
    return f"try_element_at(filter({_HEADERS}, one -> one.key = '{name}'), -1).value"
