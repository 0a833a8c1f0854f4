"""Records to the last value of each key: frames to frames, as a compacted log would end up.

A key is one of a partition. Compaction knows no other: a topic that got more partitions may have a key in two of them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, functions

from odradek_pipeline.records import COLUMNS, TOPIC_ID

KEY: Final = ("topic", TOPIC_ID, "partition", "key")


def last_of_each_key(rows: DataFrame) -> DataFrame:
    """The row with the highest offset of each key, tombstones among them. Rows without a key are left out."""
    rest = [name for name in COLUMNS if name not in KEY]
    newest = functions.max_by(functions.struct(*rest), functions.col("offset")).alias("newest")
    last = rows.where("key is not null").groupBy(*KEY).agg(newest)
    return last.select(*(name if name in KEY else f"newest.{name}" for name in COLUMNS))


def without_tombstones(rows: DataFrame) -> DataFrame:
    """Rows with a value: a tombstone says that its key is gone."""
    return rows.where("value is not null")
