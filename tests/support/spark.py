"""A local Spark session with the stock Kafka connector, from the jars that `tests.support.java` keeps.

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

from tests.support.java import connector_jars, java_home


@contextmanager
def spark_session(folder: Path, *, threads: int = 2, memory: str = "1g") -> Iterator[Any]:
    """A session of its own JVM; what Spark writes of itself goes to `folder`."""
    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's workers are another `python3` otherwise, which has neither our packages nor pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(f"local[{threads}]")
        .appName(f"test-{uuid.uuid4().hex[:8]}")
        .config("spark.jars", ",".join(str(jar) for jar in connector_jars()))
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder / 'derby'}")
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
