"""Frames to frames, without a look at where they come from."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions


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
