"""How fast does `odradek-pipeline load` write a topic to Parquet, beside Spark's plain read and write?

    python -m bench spark-load [--rounds 3] [--records 5000000]

One session with two local threads. The plain job is `spark.read.format("kafka")…write.parquet`, without any record of
what was loaded. The load runs with Spark's Kafka connector and with Odradek's own data source. It commits its offsets
with the rows, and its rows have headers, the topic's id and the run besides. The three take turns. The first round
warms Spark up and is discarded. Each output has to have all records.

Resident memory of Spark's Python workers is sampled through each load: its peak in the first and in the last third.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.peers import fresh_topic, ours, storage
from bench.spark_source import WARMING_ROUNDS, cpu_seconds, fill
from tests.support.spark import spark_session

PARTITIONS = 4
PLAIN = "plain read and write"
_SAMPLE_SECONDS = 0.2


@dataclass(slots=True)
class Runs:
    """The figures of one way to write the table, a value for each round."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    worker_megabytes: list[tuple[float, float]] = field(default_factory=list)


def measure(rounds: int, records: int) -> dict[str, Any]:
    """Rows/s, CPU and memory of each way, each round."""
    ways: dict[str, Runs] = {PLAIN: Runs(), "load, kafka": Runs(), "load, odradek": Runs()}
    with storage(None) as folder, spark_session(folder, memory="3g", is_short=False) as spark:
        broker = ours(folder)
        broker.start()
        try:
            with fresh_topic(broker, PARTITIONS) as topic:
                fill(broker.bootstrap, topic, records)
                for number in range(rounds + WARMING_ROUNDS):
                    for name, runs in ways.items():
                        output = folder / "out"
                        write = _job(spark, name, broker.bootstrap, topic, output)
                        before = cpu_seconds(broker)
                        with _workers() as samples:
                            began = time.perf_counter()
                            write()
                            seconds = time.perf_counter() - began
                        if number >= WARMING_ROUNDS:
                            runs.seconds.append(seconds)
                            runs.cpu_seconds.append(cpu_seconds(broker) - before)
                            runs.worker_megabytes.append(_peaks(samples))
                        _check(spark, output, records)
                        shutil.rmtree(output)
        finally:
            broker.close()
    return _answer(ways, records)


def _job(spark: Any, name: str, bootstrap: str, topic: str, output: Path) -> Callable[[], None]:
    """One way to write the topic to `output`."""
    if name == PLAIN:
        frame = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return lambda: frame.option("subscribe", topic).load().write.parquet(str(output / "data"))
    from odradek_pipeline.cli.main import run

    arguments = ["load", "--bootstrap", bootstrap, "--topic", topic, "--output", str(output)]
    arguments += ["--reader", name.removeprefix("load, "), "--report", "json"]

    def load() -> None:
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = run(arguments)
        assert code == 0, printed.getvalue()

    return load


def _check(spark: Any, output: Path, records: int) -> None:
    found = spark.read.option("recursiveFileLookup", "true").parquet(str(output / "data")).count()
    assert found == records, f"{found} of {records} rows are in {output}"


@contextmanager
def _workers() -> Iterator[list[float]]:
    """Samples of the resident megabytes of the Python processes below this one, while the block runs."""
    samples: list[float] = []
    ended = threading.Event()

    def sample() -> None:
        own = psutil.Process()
        while not ended.wait(_SAMPLE_SECONDS):
            total = 0
            for child in own.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    is_worker = child.name().startswith("python") and "pyspark.daemon" in child.cmdline()
                    total += child.memory_info().rss if is_worker else 0
            samples.append(total / 1e6)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield samples
    finally:
        ended.set()
        sampler.join()


def _peaks(samples: list[float]) -> tuple[float, float]:
    """The peak of the first third and of the last, in megabytes."""
    third = max(1, len(samples) // 3)
    return max(samples[:third], default=0.0), max(samples[-third:], default=0.0)


def _answer(ways: dict[str, Runs], records: int) -> dict[str, Any]:
    plain = ways[PLAIN]
    table = {}
    for name, runs in ways.items():
        ratios = [own / other for own, other in zip(plain.seconds, runs.seconds, strict=True)]
        table[name] = {
            "rows_per_second": [round(records / seconds) for seconds in runs.seconds],
            "ratio": round(statistics.median(ratios), 2),
            "ratios": [round(one, 2) for one in ratios],
            "cpu_seconds_per_million": round(statistics.median(runs.cpu_seconds) * 1e6 / records, 2),
            "worker_megabytes_first_and_last_third": [
                [round(first), round(last)] for first, last in runs.worker_megabytes
            ],
        }
    return {
        "question": "rows/s from a topic into a Parquet table",
        "records": records,
        "ways": table,
        "load_average": os.getloadavg()[0],
    }


def run_loads(*, rounds: int, records: int) -> int:
    """Print the answer as a line of JSON."""
    print(json.dumps(measure(rounds, records)), flush=True)
    return 0
