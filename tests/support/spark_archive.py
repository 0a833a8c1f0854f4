"""The classes of Spark's driver, kept parsed below `.cache/`: with them a driver's start takes half the CPU time.

A small job writes the archive once in a checkout. A Java that makes none, or cannot use it, continues without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
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
    """JVM options of a driver that lives for seconds; the first call in a checkout makes the archive."""
    archive = class_archive(spark_home())
    quick = " ".join(QUICK_OPTIONS)
    if " " in str(archive):
        return quick
    keep_class_archive(archive, _write)
    return " ".join([quick, *reading_options(archive)]) if archive.exists() else quick


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
        subprocess.run(
            [sys.executable, "-c", _JOB],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
