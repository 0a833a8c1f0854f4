"""A Spark job writes a million records, copies them by a stream and reads the copy: are all there, and how fast?

Spark 4.0.0 with its stock connector on two local threads. The contents are compared by a digest that does not depend on
order, so no record may be missing, doubled or changed. The same job runs against Apache Kafka for comparison, each
after a small one that warms Spark up.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.peers import Peer, fresh_topic, kafka, ours, storage
from tests.support.spark import spark_session

PARTITIONS = 6
WARMING_RECORDS = 20_000


@dataclass(frozen=True, slots=True)
class Job:
    """The time of one job, and whether what it read at its end is what it wrote at its beginning."""

    records: int
    is_right: bool
    write_seconds: float
    stream_seconds: float
    read_seconds: float


def run_job(*, records: int, is_json: bool) -> int:
    """A line per broker; ends with 1 when the contents are not what was sent."""
    is_right = True
    with storage(None) as folder, spark_session(folder, memory="2g", is_short=False) as spark:
        peers: list[Peer] = [ours(folder), kafka(folder)]
        for peer in peers:
            peer.start()
            try:
                _job(spark, peer, records=WARMING_RECORDS, folder=folder / f"{peer.name}-warming")
                job = _job(spark, peer, records=records, folder=folder / f"{peer.name}-job")
            finally:
                peer.close()
            is_right = is_right and job.is_right
            _print(peer.name, job, is_json=is_json)
    return 0 if is_right else 1


def _job(spark: Any, peer: Peer, *, records: int, folder: Path) -> Job:
    """Batch write to one topic, stream from it to another until nothing is left, batch read of that."""
    written = _numbered(spark, records)
    sent = written.agg(_digest()).first()[0]
    server = {"kafka.bootstrap.servers": peer.bootstrap}
    with fresh_topic(peer, PARTITIONS) as origin, fresh_topic(peer, PARTITIONS) as target:
        times = [time.perf_counter()]
        written.write.format("kafka").options(**server, topic=origin).save()
        times.append(time.perf_counter())
        query = (
            spark.readStream.format("kafka")
            .options(**server, subscribe=origin, startingOffsets="earliest")
            .load()
            .select("key", "value")
            .writeStream.format("kafka")
            .options(**server, topic=target, checkpointLocation=str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        times.append(time.perf_counter())
        copied = spark.read.format("kafka").options(**server, subscribe=target).load()
        got = copied.selectExpr("cast(key as string) key", "cast(value as string) value").agg(
            _digest(), _count()
        )
        digest, count = got.first()
        times.append(time.perf_counter())
    write, stream, read = (after - before for before, after in pairwise(times))
    return Job(count, (digest, count) == (sent, records), write, stream, read)


def _numbered(spark: Any, records: int) -> Any:
    """Keys that count, values of 50 odd bytes that differ in all of them."""
    return spark.range(records).selectExpr(
        "cast(id as string) key", "concat('value-', id, '-', md5(cast(id as string))) value"
    )


def _digest() -> Any:
    from pyspark.sql import functions

    return functions.sum(functions.xxhash64("key", "value").cast("decimal(38,0)"))


def _count() -> Any:
    from pyspark.sql import functions

    return functions.count("*")


def _print(name: str, job: Job, *, is_json: bool) -> None:
    rates = {
        "batch write": job.records / job.write_seconds,
        "stream copy": job.records / job.stream_seconds,
        "batch read": job.records / job.read_seconds,
    }
    if is_json:
        line = {
            "question": "Spark",
            "broker": name,
            "records": job.records,
            "contents are what was sent": job.is_right,
        }
        print(
            json.dumps({**line, **{f"{what}, records/s": round(rate) for what, rate in rates.items()}}),
            flush=True,
        )
        return
    rates_text = ", ".join(f"{what} {rate:,.0f}" for what, rate in rates.items())
    verdict = "all there, none changed" if job.is_right else "NOT WHAT WAS SENT"
    print(f"Spark and {name}: {job.records:,} records, {verdict}; records/s: {rates_text}", flush=True)
