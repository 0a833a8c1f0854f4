"""A Spark driver that copies a topic into Parquet files: python -m tests.spark.file_stream BOOTSTRAP TOPIC FOLDER

A process of its own, so that a test can kill it in the middle of a batch. It prints `begun` when its first batch is
there. It prints `done` when it has read everything up to where the topic ended at its start, and its session ended.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.spark import spark_session

OFFSETS_PER_BATCH = 300


def main(bootstrap: str, topic: str, folder: Path) -> None:
    with spark_session(folder, memory="512m") as spark:
        query = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(OFFSETS_PER_BATCH))
            .load()
            .select("value", "partition", "offset")
            .writeStream.format("parquet")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        while query.lastProgress is None and not query.awaitTermination(0.05):
            continue
        print("begun", flush=True)
        query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
