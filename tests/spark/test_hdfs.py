"""A table of Parquet on HDFS: loads continue, and of writers that publish one version only one does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from odradek_pipeline.outputs.parquet.output import read_table
from odradek_pipeline.outputs.parquet.store import open_store
from tests.spark.records import send
from tests.spark.tables import logged, pipeline, stored
from tests.support.hdfs import Hdfs
from tests.support.java import JavaUnavailableError
from tests.support.local_process import running
from tests.support.peers import CreateTopic, skip_or_fail
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]
WRITERS = 8


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with running(Hdfs(tmp_path_factory.mktemp("hdfs"))) as started:
            yield started.url
    except JavaUnavailableError as missing:
        skip_or_fail(str(missing))


def test_loads_into_hdfs_go_on_where_the_table_ends(
    spark: Any, bootstrap: str, create_topic: CreateTopic, hdfs: str
) -> None:
    topic, output = create_topic(2), f"{hdfs}/tables/orders"
    load = ("load", "--bootstrap", bootstrap, "--topic", topic, "--output", output)
    send(bootstrap, topic, numbered(100), 2)
    first = pipeline(*load)
    assert (first.code, first.summary["rows"]) == (PipelineExitCode.OK, 100)
    send(bootstrap, topic, numbered(30), 2)
    second = pipeline(*load)
    assert (second.code, second.summary["rows"]) == (PipelineExitCode.OK, 30)
    assert stored(read_table(spark, output)) == logged(bootstrap, topic)
    runs = pipeline("runs", "--output", output).summary["runs"]
    assert [(one["number"], one["rows"]) for one in runs] == [(2, 30), (1, 100)]


def test_one_of_many_writers_makes_a_file_of_hdfs(spark: Any, hdfs: str) -> None:
    store = open_store(spark, f"{hdfs}/tables/contended")
    at_once = threading.Barrier(WRITERS)

    def create(number: int) -> bool:
        at_once.wait()
        return store.create("manifests/1", f"of {number}".encode())

    with ThreadPoolExecutor(WRITERS) as pool:
        made = list(pool.map(create, range(WRITERS)))
    assert made.count(True) == 1
    assert store.read("manifests/1") == f"of {made.index(True)}".encode()
    assert [file.path for file in store.list_files("manifests")] == ["manifests/1"], "scratch files are left"
