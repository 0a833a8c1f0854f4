"""A local Spark session with the stock Kafka connector, from the jars that `tests.support.java` keeps.

With `tables` it also has Avro and Delta, and Iceberg with a catalog `lake` in that folder.

Two threads and two shuffle partitions: the tests' data is small. Left out: any option of the connector; the tests
set those, for they are what is tested.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.java import QUICK_OPTIONS, avro_jars, connector_jars, java_home, table_jars
from tests.support.spark_archive import driver_options, spark_home

_EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


@contextmanager
def spark_session(
    folder: Path, *, threads: int = 2, memory: str = "1g", tables: Path | None = None, is_short: bool = True
) -> Iterator[Any]:
    """A session of its own JVM; what Spark writes of itself goes to `folder`.

    A short one compiles little, which costs less CPU for seconds of work. Benchmarks want Java's own defaults.
    """
    os.environ["JAVA_HOME"] = java_home()
    # The JVM that only puts the driver's command line together.
    os.environ["SPARK_LAUNCHER_OPTS"] = " ".join(QUICK_OPTIONS)
    os.environ["SPARK_HOME"] = spark_home()
    java_options = f"-Dderby.system.home={folder / 'derby'} {driver_options() if is_short else ''}"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's workers are another `python3` otherwise, which has neither our packages nor pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    jars = [*connector_jars(), *((*table_jars(), *avro_jars()) if tables is not None else ())]
    builder = (
        SparkSession.builder.master(f"local[{threads}]")
        .appName(f"test-{uuid.uuid4().hex[:8]}")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.driver.extraJavaOptions", java_options)
    )
    for name, value in _table_options(tables).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _table_options(tables: Path | None) -> dict[str, str]:
    if tables is None:
        return {}
    return {
        "spark.sql.extensions": ",".join(_EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tables),
        # Small tables: Delta would look through its log with 50 tasks.
        "spark.databricks.delta.snapshotPartitions": "1",
    }
