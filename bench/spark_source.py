"""How fast does Spark read a topic by `format("odradek")`, beside its stock connector, to nothing and to Parquet?

    python -m bench spark-source [--rounds 3] [--records 1000000]

One session with two local threads reads the same topic of 2 partitions on our broker. The readers take turns. The
first round warms Spark up and is discarded. Each read has to have all records. CPU is that of the JVM and of Spark's
Python workers together. A busy machine changes it less than the time.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import time
from pathlib import Path
from random import Random
from typing import Any

import psutil

from bench.peers import fresh_topic, ours, storage
from tests.support.spark import spark_session

PARTITIONS = 2
VALUE_BYTES = 200
WARMING_ROUNDS = 1
_SENT_AT_ONCE = 10_000


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Random values of 200 B with keys of 8 B, by the Java client's default size of batches."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 65536})
    random = Random(1)
    for number in range(records):
        producer.produce(topic, random.randbytes(VALUE_BYTES), key=b"%08d" % number)
        if number % _SENT_AT_ONCE == 0:
            producer.flush()
    producer.flush()


def _frame(spark: Any, name: str, bootstrap: str, topic: str) -> Any:
    """The topic by one of the connectors."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return spark.read.format(name).options(**options).load()


def measure(rounds: int, records: int) -> dict[str, Any]:
    """Rows/s of each reader and target, each round."""
    rates: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    with storage(None) as folder, spark_session(folder, memory="2g", is_short=False) as spark:
        broker = ours(folder)
        broker.start()
        try:
            with fresh_topic(broker, PARTITIONS) as topic:
                fill(broker.bootstrap, topic, records)
                for number in range(rounds + WARMING_ROUNDS):
                    for target in ("noop", "parquet"):
                        for name in ("odradek", "kafka"):
                            frame = _frame(spark, name, broker.bootstrap, topic)
                            before = cpu_seconds(broker)
                            rate = _rate(spark, frame, target, folder / "out", records)
                            if number >= WARMING_ROUNDS:
                                rates.setdefault(f"{name} to {target}", []).append(rate)
                                cost = (cpu_seconds(broker) - before) * 1e6 / records
                                costs.setdefault(f"{name} to {target}", []).append(cost)
        finally:
            broker.close()
    return {
        "question": "rows/s from a topic into Spark",
        "records": records,
        "rows_per_second": {name: [round(one) for one in found] for name, found in rates.items()},
        "cpu_seconds_per_million": {name: [round(one, 2) for one in found] for name, found in costs.items()},
        "medians": {name: round(statistics.median(found)) for name, found in rates.items()},
        "load_average": os.getloadavg()[0],
    }


def cpu_seconds(broker: Any) -> float:
    """The processor time of this process and its children, without the broker."""
    own = psutil.Process()
    total = 0.0
    for one in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            if one.pid != broker.pid:
                times = one.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def _rate(spark: Any, frame: Any, target: str, folder: Path, records: int) -> float:
    begun = time.perf_counter()
    if target == "noop":
        frame.write.format("noop").mode("overwrite").save()
    else:
        frame.write.mode("overwrite").parquet(str(folder))
    seconds = time.perf_counter() - begun
    if target == "parquet":
        found = spark.read.parquet(str(folder)).count()
        assert found == records, f"{found} of {records} rows arrived"
        shutil.rmtree(folder)
    return records / seconds


def run_reads(*, rounds: int, records: int) -> int:
    """Print the answer as a line of JSON."""
    print(json.dumps(measure(rounds, records)), flush=True)
    return 0
