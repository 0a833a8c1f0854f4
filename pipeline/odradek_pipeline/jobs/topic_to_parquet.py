"""A range of a topic to Parquet files, with each record's partition and offset beside it.

Without `--from` the job continues where the output ends, or at the earliest record when there is no output yet. Run by
a schedule, it keeps the files up to date. After a failure it writes what is missing and nothing twice, because each
partition's range is one file. A job with `--from` writes a new output and refuses one that exists.

It prints one line of JSON: what the output holds now. Two of it must not run at once on one output.

Left out: splitting a large partition between tasks; its range would no longer be one file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from pyspark.sql import SparkSession

from odradek_pipeline.offsets import (
    EARLIEST,
    Held,
    held_by,
    offsets_option,
    partitions_of,
    position_options,
)
from odradek_pipeline.session import Connection, JobRefusedError, run_job
from odradek_pipeline.sinks import append_parquet, written_parquet
from odradek_pipeline.sources import topic_range


class OutputExistsError(JobRefusedError):
    """A range was asked for by its start, and the output has records already."""


def run(
    spark: SparkSession, connection: Connection, *, topic: str, output: str, start: str | None, end: str
) -> dict[int, Held]:
    """Write the range and return what the output holds; PositionError, OutputExistsError."""
    written = written_parquet(spark, output)
    held = held_by(written) if written is not None else {}
    if start is not None and held:
        raise OutputExistsError(
            f"{output} holds records already: leave --from out to go on from them, or name another"
        )
    ending = position_options("ending", topic, end)
    if start is not None:
        starting = position_options("starting", topic, start)
    else:
        starting = _after(spark, connection, topic, held)
    append_parquet(topic_range(spark, connection, topic, {**starting, **ending}), output)
    now = written_parquet(spark, output)
    return held_by(now) if now is not None else {}


def _after(spark: SparkSession, connection: Connection, topic: str, held: dict[int, Held]) -> dict[str, str]:
    """The position behind what is held; partitions that came since then start at their earliest record."""
    if not held:
        return position_options("starting", topic, "earliest")
    partitions = partitions_of(spark, connection, topic)
    after = {number: held[number].last + 1 if number in held else EARLIEST for number in range(partitions)}
    return offsets_option("starting", topic, after)


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="topic_to_parquet", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topic", required=True)
    parser.add_argument("--output", required=True, help="folder or URL that Spark can write")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POSITION",
        help="earliest, a time, or offsets as 0:1500,1:1480; without it: where the output ends",
    )
    parser.add_argument("--to", dest="end", default="latest", metavar="POSITION", help="the first not taken")
    return parser.parse_args(given)


def main() -> int:
    wanted = arguments(sys.argv[1:])

    def load(spark: SparkSession, connection: Connection) -> dict[str, object]:
        held = run(
            spark,
            connection,
            topic=wanted.topic,
            output=wanted.output,
            start=wanted.start,
            end=wanted.end,
        )
        return {
            "topic": wanted.topic,
            "output": wanted.output,
            "records": sum(one.records for one in held.values()),
            "partitions": {str(number): asdict(one) for number, one in sorted(held.items())},
        }

    return run_job("topic_to_parquet", load)


if __name__ == "__main__":
    sys.exit(main())
