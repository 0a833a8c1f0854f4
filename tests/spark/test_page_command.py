"""`page` and the metrics of a real load: what both say is what was loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.records import send
from tests.spark.tables import pipeline
from tests.support.peers import CreateTopic
from tests.support.samples import numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]


def test_a_page_and_metrics_say_what_was_loaded(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, output, metrics = create_topic(2), str(tmp_path / "table"), tmp_path / "load.prom"
    send(bootstrap, topic, numbered(300), 2)
    at = ("--bootstrap", bootstrap, "--output", output)
    measured = ("--metrics-file", str(metrics), "--metrics-port", "0", "--metrics-address", "127.0.0.1")
    ran = pipeline("load", "--topic", topic, *at, "--stop", "0:150,1:100", *measured)
    assert (
        ran.code == PipelineExitCode.OK and ran.events[0]["event"] == "metrics" and ran.events[0]["port"] > 0
    )
    said = {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(metrics.read_text())
        for one in family.samples
    }
    assert said["odradek_pipeline_rows_total", "load"] == 250
    assert said["odradek_pipeline_bytes_total", "load"] == ran.summary["bytes"]
    assert said["odradek_pipeline_lag_offsets", "0", topic] == 0
    assert said["odradek_pipeline_lag_offsets", "1", topic] == 50
    assert pipeline("load", "--topic", "none", *at, *measured).code == PipelineExitCode.NOT_FOUND
    file = tmp_path / "runs.html"
    made = pipeline("page", *at, "--file", str(file))
    assert (made.code, made.summary["verdict"], made.summary["runs"]) == (PipelineExitCode.OK, "warning", 1)
    assert made.summary["reasons"] == "50 offsets behind the log"
    text = file.read_text()
    assert f"run {ran.summary['number']}, load: 250 rows, 0 dead letters" in text
    assert f"--bootstrap {bootstrap} --run {ran.summary['run']}" in text
    assert f"{topic}-1 0..100" in text and "the log ends at 150" in text
    assert [one.name for one in tmp_path.glob("runs.html*")] == ["runs.html"]
    assert (
        pipeline("page", *at, "--file", str(tmp_path / "none" / "runs.html")).code == PipelineExitCode.USAGE
    )
    assert (
        pipeline("page", *at[:2], "--output", f"{output}-2", "--file", str(file)).code
        == PipelineExitCode.NOT_FOUND
    )
