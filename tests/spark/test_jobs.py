"""The jobs of the pipeline on a local session: what they write is what was produced, however often they are run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.jobs import topic_to_parquet, word_count
from odradek_pipeline.offsets import Held
from odradek_pipeline.session import Connection
from tests.spark.records import fetched, send, values_of
from tests.support.peers import CreateTopic
from tests.support.samples import BASE_TIME_MS, numbered

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection({"bootstrap.servers": bootstrap, "max.poll.records": "10000"})


def test_a_load_that_is_run_again_goes_on_where_its_output_ends(
    spark: Any, bootstrap: str, connection: Connection, create_topic: CreateTopic, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic, output = create_topic(2), str(tmp_path / "out")
    values = numbered(300)

    def load() -> dict[int, Held]:
        return topic_to_parquet.run(spark, connection, topic=topic, output=output, start=None, end="latest")

    send(bootstrap, topic, values[:100], 2)
    assert load() == {0: Held(0, 49, 50), 1: Held(0, 49, 50)}
    assert load() == {0: Held(0, 49, 50), 1: Held(0, 49, 50)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    send(bootstrap, topic, values[100:], 2, start=100)
    assert load() == {0: Held(0, 149, 150), 1: Held(0, 149, 150)}, "a partition without records"
    send(bootstrap, topic, [b"first of the third"] * 3, 3)
    assert load() == {0: Held(0, 150, 151), 1: Held(0, 150, 151), 2: Held(0, 0, 1)}
    written = spark.read.parquet(output)
    assert values_of(written) == sorted([*values, *[b"first of the third"] * 3])
    row = written.where("partition = 1 and offset = 7").collect()[0]
    assert (bytes(row.key), row.topic, row.timestamp.timestamp()) == (b"15", topic, BASE_TIME_MS / 1000 + 7)
    assert [(one.key, bytes(one.value)) for one in row.headers] == [("n", b"15")]


def test_a_range_by_offsets_and_time_is_a_new_output(
    spark: Any, bootstrap: str, connection: Connection, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, output = create_topic(2), str(tmp_path / "out")
    send(bootstrap, topic, numbered(100), 2)
    ending = str(BASE_TIME_MS + 40_000)
    arguments: dict[str, Any] = {"topic": topic, "output": output, "start": "0:10,1:20", "end": ending}
    assert topic_to_parquet.run(spark, connection, **arguments) == {0: Held(10, 39, 30), 1: Held(20, 39, 20)}
    with pytest.raises(topic_to_parquet.OutputExistsError, match="holds records already"):
        topic_to_parquet.run(spark, connection, **arguments)


def test_words_are_counted_across_drivers(
    spark: Any, bootstrap: str, connection: Connection, create_topic: CreateTopic, tmp_path: Path
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
