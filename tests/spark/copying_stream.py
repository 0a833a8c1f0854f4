"""A Spark driver that copies a topic by `format("odradek")`, and may die by SIGKILL at a step of its sink.

    python -m tests.spark.copying_stream BOOTSTRAP ORIGIN TARGET FOLDER RECORDS [STEP]

The process and its JVM are one process group, and Spark's Python workers another one. At the step the worker ends the
first group and itself. It ends when it has copied RECORDS, or after a deadline.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from odradek_pipeline.sink.driver import Ending
from odradek_pipeline.sink.writers import StreamWriter
from pyspark_odradek import DefaultSource

SECONDS_MAX = 200
BATCH = 1
LATE_WORKER = "failed to connect back"
GROUP, STEP = "ODRADEK_TEST_GROUP", "ODRADEK_TEST_STEP"


def die_at(step: str, batch: int) -> None:
    """End the driver, its JVM and this worker at the step that the environment names."""
    if step == os.environ.get(STEP) and batch == BATCH:
        os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class DyingEnding(Ending):
    def note_step(self, step: str) -> None:
        die_at(step, self._batch)


class DyingWriter(StreamWriter):
    ending = DyingEnding

    def note_step(self, step: str) -> None:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1:
            die_at(step, int(context.getLocalProperty("streaming.sql.batchId") or -1))


class DyingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "odradek-dying"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return DyingWriter(self.options, schema, overwrite)


def main(bootstrap: str, origin: str, target: str, folder: str, records: int) -> int:
    from tests.support.spark import spark_session

    with spark_session(Path(folder) / f"spark-{os.getpid()}") as spark:
        spark.dataSource.register(DyingSource)
        frame = (
            spark.readStream.format("odradek")
            .options(
                subscribe=origin,
                startingOffsets="earliest",
                maxOffsetsPerTrigger="300",
                includeHeaders="true",
            )
            .option("bootstrap.servers", bootstrap)
            .load()
        )
        writing = (
            frame.select("key", "value", "partition", "headers")
            .writeStream.format("odradek-dying")
            .options(topic=target, checkpointLocation=f"{folder}/checkpoint")
            .option("bootstrap.servers", bootstrap)
        )
        query = writing.start()
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            found = query.lastProgress
            ends = found["sources"][0]["endOffset"] if found else None
            if ends and sum(json.loads(ends)["topics"][origin]["partitions"].values()) >= records:
                query.stop()
                print("copied", flush=True)
                return 0
            if not query.isActive:
                if LATE_WORKER not in str(query.exception()):
                    break
                query = (
                    writing.start()
                )  # Spark gives a worker few seconds, which a busy machine may take longer
            time.sleep(0.2)
        print(query.exception() or "the deadline is over", file=sys.stderr)
        return 1


if __name__ == "__main__":
    os.environ[GROUP] = str(os.getpgid(0))
    os.environ[STEP] = sys.argv[6] if len(sys.argv) > 6 else ""
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])))
