"""A Spark job writes a million records to the broker and reads them back: are all there, and how fast?

Spark 4.0.0 with its stock connector on two local threads. The contents are compared by a digest that does not depend on
order, so no record may be missing, doubled or changed.
"""

from __future__ import annotations

import json
import time

from bench.peers import Peer, fresh_topic, kafka, ours, storage
from tests.support.spark import spark_session

PARTITIONS = 6


def run_job(*, records: int) -> int:
    """One JSON line per broker; ends with 1 when the contents are not what was sent."""
    from pyspark.sql import functions

    is_right = True
    with storage(None) as folder, spark_session(folder, memory="2g") as spark:
        peers: list[Peer] = [ours(folder), kafka(folder)]
        frame = spark.range(records).select(
            functions.col("id").cast("string").alias("key"),
            functions.concat_ws(
                "-",
                functions.lit("value"),
                functions.col("id"),
                functions.md5(functions.col("id").cast("string")),
            ).alias("value"),
        )
        digest = functions.sum(functions.xxhash64("key", "value").cast("decimal(38,0)"))
        sent = frame.agg(digest).first()[0]
        for peer in peers:
            peer.start()
            try:
                with fresh_topic(peer, PARTITIONS) as topic:
                    started = time.perf_counter()
                    (
                        frame.write.format("kafka")
                        .option("kafka.bootstrap.servers", peer.bootstrap)
                        .option("topic", topic)
                        .save()
                    )
                    written = time.perf_counter()
                    got = (
                        spark.read.format("kafka")
                        .option("kafka.bootstrap.servers", peer.bootstrap)
                        .option("subscribe", topic)
                        .load()
                        .select(functions.col("key").cast("string"), functions.col("value").cast("string"))
                        .agg(functions.count("*"), digest)
                        .first()
                    )
                    read = time.perf_counter()
            finally:
                peer.close()
            matches = (got[0], got[1]) == (records, sent)
            is_right = is_right and matches
            line = {
                "question": "Spark",
                "broker": peer.name,
                "records": got[0],
                "contents are what was sent": matches,
                "write records/s": round(records / (written - started)),
                "read records/s": round(records / (read - written)),
            }
            print(json.dumps(line), flush=True)
    return 0 if is_right else 1
