"""The jobs of the pipeline on a local session: what they write is what was produced, however often they are run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.connection.session import SparkConnection
from odradek_pipeline.jobs import word_count
from tests.spark.records import fetched, send
from tests.support.peers import CreateTopic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]


@pytest.fixture
def connection(bootstrap: str) -> SparkConnection:
    return SparkConnection({"bootstrap.servers": bootstrap, "max.poll.records": "10000"})


def test_words_are_counted_across_drivers(
    spark: Any, bootstrap: str, connection: SparkConnection, create_topic: CreateTopic, tmp_path: Path
) -> None:
    source, target = create_topic(2), create_topic(1)
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def count_what_is_there() -> None:
        query = word_count.start(
            spark,
            connection,
            source=source,
            target=target,
            checkpoint=str(tmp_path / "checkpoint"),
            seconds=None,
            records_per_batch=1000,
        )
        assert query.awaitTermination(120)

    send(bootstrap, source, [b"To be, or not to be", "Grün ist grün".encode(), b"42 times 42"], 2)
    count_what_is_there()
    send(bootstrap, source, [b"be quick", b"..."], 2)
    count_what_is_there()
    # Eight words at first, two of the second run: only what changed is written.
    newest: dict[bytes | None, bytes | None] = dict(fetched(bootstrap, target, 1, 10))
    assert newest == {
        b"to": b"2",
        b"be": b"3",
        b"or": b"1",
        b"not": b"1",
        "grün".encode(): b"2",
        b"ist": b"1",
        b"42": b"2",
        b"times": b"1",
        b"quick": b"1",
    }


def test_a_job_without_brokers_says_where_to_name_them(tmp_path: Path) -> None:
    """The script as spark-submit runs it, in a driver of its own."""
    from tests.support.broker_process import CHECKOUT
    from tests.support.java import java_environment

    job = CHECKOUT / "pipeline" / "odradek_pipeline" / "jobs" / "word_count.py"
    asked = ["--source", "a", "--target", "b", "--checkpoint", str(tmp_path), "--once"]
    environment = {
        **java_environment(),
        "PYTHONPATH": str(CHECKOUT / "pipeline"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, str(job), *asked], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 2, done.stderr[-2000:]
    assert "no brokers are named" in done.stderr
