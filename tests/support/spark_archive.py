"""The classes of Spark's driver, kept parsed below `.cache/`: with them a driver's start takes half the CPU time.

`make tools` has a small job write the archive. A driver without one, or whose Java cannot use it, starts as slowly as
any other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.class_archives import keep_class_archive, reading_options, writing_options
from tests.support.java import (
    QUICK_OPTIONS,
    class_archive,
    java_home,
    pyspark_jars,
)
from tests.support.programs import UnavailableError

SECONDS_MAX: Final = 600

# Batch jobs, files and a stream, and the end of the JVM, which writes the archive then.
_JOB: Final = """
from pyspark import SparkContext
from pyspark.sql import SparkSession, functions

session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
session.range(100).groupBy((functions.col("id") % 7).alias("k")).count().write.parquet("counts")
session.read.parquet("counts").where("k < 3").orderBy("k").collect()
stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().groupBy("value").count()
stream.writeStream.format("memory").queryName("q").outputMode("update").trigger(once=True).start().awaitTermination()
session.stop()
gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def spark_home() -> str:
    """PySpark's folder. An archive fits only where the class path has the same spelling."""
    return str(pyspark_jars().parent.resolve())


@cache
def driver_options() -> str:
    """JVM options of a driver that lives for seconds."""
    archive = class_archive(spark_home())
    quick = " ".join(QUICK_OPTIONS)
    is_usable = archive.exists() and " " not in str(archive)
    return " ".join([quick, *reading_options(archive)]) if is_usable else quick


def write_spark_archive() -> None:
    """Have the archive. Raises UnavailableError where no Java could write one."""
    archive = class_archive(spark_home())
    keep_class_archive(archive, _write)
    if not archive.exists():
        raise UnavailableError(f"Spark's Java wrote no archive within {SECONDS_MAX} s: drivers start without")


def _write(file: Path) -> None:
    options = " ".join([*QUICK_OPTIONS, *writing_options(file)])
    submit = (
        f"--driver-java-options '{options}' --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "JAVA_HOME": java_home(),
            "SPARK_HOME": spark_home(),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell",
        }
        job = subprocess.Popen(
            [sys.executable, "-c", _JOB],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            job.wait(SECONDS_MAX)
        finally:
            # Its Java is a process of its own, and outlives it.
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
