"""Positions in a topic, as people write them and as the connector takes them, and the ranges that an output holds.

A position is `earliest`, `latest`, a time (`2026-03-01T12:00:00Z`, or milliseconds since 1970), or an offset for each
partition (`0:1500,1:1480`). Offsets that were written are in the output, beside the records. A job that is run again
asks the output where to continue, so records and offsets always match.

Left out: offsets committed to a group. A batch job has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession, functions

from odradek_pipeline.session import Connection, JobRefusedError

EARLIEST = -2  # the connector's word for it where offsets are listed
_OFFSETS = re.compile(r"\d+:\d+(,\d+:\d+)*")


class PositionError(JobRefusedError):
    """A text that is no position; the text says which forms there are."""


@dataclass(frozen=True, slots=True)
class Held:
    """The records of one partition that an output holds: offsets `first` to `last`, both inclusive."""

    first: int
    last: int
    records: int


def position_options(edge: str, topic: str, text: str) -> dict[str, str]:
    """The connector's option for a position at the `starting` or `ending` edge of a range.

    A time is the first record at it or after it. A partition whose records are all older starts at its end.
    """
    if text in ("earliest", "latest"):
        return {f"{edge}Offsets": text}
    if _OFFSETS.fullmatch(text):
        pairs = (pair.split(":") for pair in text.split(","))
        return offsets_option(edge, topic, {int(partition): int(offset) for partition, offset in pairs})
    options = {f"{edge}Timestamp": str(_milliseconds(text))}
    if edge == "starting":
        options["startingOffsetsByTimestampStrategy"] = "latest"
    return options


def offsets_option(edge: str, topic: str, offsets: Mapping[int, int]) -> dict[str, str]:
    """The connector's option for an offset in each partition; it wants all partitions named."""
    by_partition = {str(partition): offset for partition, offset in sorted(offsets.items())}
    return {f"{edge}Offsets": json.dumps({topic: by_partition})}


def _milliseconds(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PositionError(
            f"{text!r} is no position: write earliest, latest, a time as 2026-03-01T12:00:00Z or in milliseconds, "
            "or offsets as 0:1500,1:1480"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def held_by(frame: DataFrame) -> dict[int, Held]:
    """What a frame with the columns `partition` and `offset` holds, by partition."""
    measured = frame.groupBy("partition").agg(
        functions.min("offset").alias("first"),
        functions.max("offset").alias("last"),
        functions.count("*").alias("records"),
    )
    return {row["partition"]: Held(row["first"], row["last"], row["records"]) for row in measured.collect()}


def partitions_of(spark: SparkSession, connection: Connection, topic: str) -> int:
    """How many partitions a topic has. The connector has no call for it; the client in its jars has."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a session has its JVM until it is stopped"
    properties = jvm.java.util.Properties()
    for name, value in connection.settings.items():
        properties.put(name, value)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        described = admin.describeTopics(jvm.java.util.Collections.singleton(topic)).allTopicNames().get()
        return int(described.get(topic).partitions().size())
    finally:
        admin.close()
