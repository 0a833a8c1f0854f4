"""The tour's last guest: a Spark job that reads the topic with the stock connector. Only where PySpark and Java are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path


def totals(bootstrap: str, topic: str, folder: Path) -> str:
    """Amounts by item, as Spark shows a frame. Raises tests.support.java.JavaUnavailableError."""
    from tests.support.spark import spark_session

    with _quiet(folder / "spark.log"), spark_session(folder) as spark:
        orders = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .load()
            .selectExpr("from_json(cast(value as string), 'order long, item string, amount long') o")
            .selectExpr("o.*")
        )
        summed = orders.groupBy("item").sum("amount").orderBy("item")
        rows = [("item", "amount"), *((row[0], f"{row[1]:,}") for row in summed.collect())]
    return "\n".join(f"{item:<16} {amount:>9}" for item, amount in rows)


def is_here() -> bool:
    return find_spec("pyspark") is not None


@contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """What the JVM writes to standard error goes to `log`: it inherits the descriptor."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
