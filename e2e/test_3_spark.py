"""Spark in cluster mode reads exactly what was produced, and writes back, as the examples say it."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from operator import itemgetter
from typing import Any

import pytest

from e2e import boot
from e2e.conftest import declare_topic, named
from e2e.install import BOOTSTRAP, NAMESPACE
from e2e.kube import Kube
from e2e.workload import everything, produce
from tests.support.java import QUICK_OPTIONS, java_home, pyspark_jars

EXAMPLES = boot.CHECKOUT / "manifests" / "examples" / "spark"
JOB_SECONDS_MAX = 800
CLAIM = "spark-output"
SHORT_LIVED = " ".join(QUICK_OPTIONS)  # a JVM that ends after a minute compiles its code for nothing


@pytest.fixture(scope="module")
def spark(kube: Kube) -> Kube:
    """The namespace with what the examples ask for: a service account with its rights, and a volume."""
    kube.run("apply", "-f", str(EXAMPLES / "rbac.yaml"))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    kube.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": spec}
    )
    return kube


def submitted(*arguments: str) -> subprocess.Popen[str]:
    """The example script, under way; it ends when its driver has."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(pyspark_jars().parent),
        "JAVA_HOME": java_home(),
        "IMAGE": boot.image("pipeline"),
        "CORES_REQUEST": "100m",
        "SPARK_SUBMIT_OPTS": SHORT_LIVED,
    }
    command = [
        str(EXAMPLES / "submit"),
        "--cluster",
        "demo",
        "--namespace",
        NAMESPACE,
        "--claim",
        f"{CLAIM}:/output",
        "--conf",
        f"spark.driver.extraJavaOptions={SHORT_LIVED}",
        "--conf",
        f"spark.executor.extraJavaOptions={SHORT_LIVED}",
    ]
    return subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def told_by(job: subprocess.Popen[str]) -> dict[str, Any]:
    """The line of JSON that a job prints at its end; AssertionError with its log when it failed."""
    said, errors = job.communicate(timeout=JOB_SECONDS_MAX)
    assert job.returncode == 0, f"{said}\n{errors[-4000:]}"
    reported: dict[str, Any] = json.loads(said.splitlines()[-1])
    return reported


@pytest.mark.timeout(900)
def test_a_topic_is_loaded_and_words_are_counted_back(spark: Kube) -> None:
    """Three jobs at once: a load and a stream of every record, and a word count into a compacted topic."""
    lines_topic, words_topic = named("lines"), named("words")
    declare_topic(spark, lines_topic, partitions=3, replicas=3)
    declare_topic(spark, words_topic, partitions=1, replicas=3, config={"cleanup.policy": "compact"})
    lines = [f"word{number % 7} and word{number % 11} n{number}" for number in range(2000)]
    produce(spark, BOOTSTRAP, lines_topic, lines)
    load = submitted(
        "load.py", "--topic", lines_topic, "--output", f"/output/{lines_topic}", "--report", "json"
    )
    stream = submitted(
        "stream.py",
        "--topic",
        lines_topic,
        "--output",
        f"/output/{lines_topic}-stream",
        "--available-now",
        "--max-offsets-per-trigger",
        "700",
        "--report",
        "json",
    )
    count = submitted(
        "word_count.py",
        "--source",
        lines_topic,
        "--target",
        words_topic,
        "--checkpoint",
        f"/output/{words_topic}",
        "--once",
    )
    loaded, streamed, counted = told_by(load), told_by(stream), told_by(count)

    held = everything(spark, BOOTSTRAP, lines_topic)
    ends = Counter(partition for partition, *_ in held)
    assert loaded["rows"] == len(lines) == counted["records"]
    assert streamed["rows"] == len(lines)
    assert streamed["batches"] >= 3, "no batch has more than 700 offsets"
    ranges = [{"topic": lines_topic, "partition": one, "start": 0, "end": ends[one]} for one in sorted(ends)]
    assert sorted(loaded["ranges"], key=itemgetter("partition")) == ranges
    newest = {key: value for _, _, key, value in sorted(everything(spark, BOOTSTRAP, words_topic))}
    expected = Counter(word for line in lines for word in line.split())
    assert newest == {word: str(times) for word, times in expected.items()}
