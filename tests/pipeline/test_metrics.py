"""The driver's metrics: what a run adds to them, and where they are served."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.runs.plans import LogFacts
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey
from odradek_pipeline.runs.record import LOAD, DeadCount, RunRecord
from odradek_pipeline.work.metrics import METRICS, RunMetrics, expose_metrics

KEY = PartitionKey("t", "id", 0)


def record(end: int, *, number: int = 1) -> RunRecord:
    loaded = OffsetRange(KEY, 0, end)
    return RunRecord(
        run="r",
        kind=LOAD,
        number=number,
        cluster_id=None,
        ranges=(loaded,),
        holdings=Holdings.none().with_ranges([loaded], None),
        started_ms=1_000,
        committed_ms=4_500,
        lost=(OffsetRange(KEY, 0, 2),),
        dead=(DeadCount(loaded, 3),),
    )


def facts(end: int) -> list[LogFacts]:
    return [LogFacts("t", "id", None, log_starts={0: 0, 1: 0}, ends={0: end, 1: 5}, high_watermarks={})]


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if not one.name.endswith(("_created", "_bucket"))
    }


def test_a_run_is_counted_and_lag_is_what_is_not_held(tmp_path: Path) -> None:
    metrics, path = RunMetrics(), tmp_path / "pipeline.prom"
    with expose_metrics(metrics, port=0, address="127.0.0.1", path=str(path)) as port:
        metrics.note_holdings(None, Holdings.none())
        metrics.note_ends(facts(100))
        metrics.count_failure(LOAD)
        metrics.count_commit(record(90), 80, 5_000)
        metrics.note_ends(facts(120))
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            served = samples(answer.read().decode())
    assert served == {
        ("odradek_pipeline_runs_total", "load", "committed"): 1,
        ("odradek_pipeline_runs_total", "load", "failed"): 1,
        ("odradek_pipeline_rows_total", "load"): 80,
        ("odradek_pipeline_bytes_total", "load"): 5_000,
        ("odradek_pipeline_offsets_total", "load"): 90,
        ("odradek_pipeline_dead_letters_total", "t"): 3,
        ("odradek_pipeline_lost_offsets_total", "t"): 2,
        ("odradek_pipeline_run_seconds_count", "load"): 1,
        ("odradek_pipeline_run_seconds_sum", "load"): 3.5,
        ("odradek_pipeline_last_commit_timestamp_seconds",): 4.5,
        ("odradek_pipeline_run_number",): 1,
        ("odradek_pipeline_lag_offsets", "0", "t"): 30,  # of partition 1 the table holds nothing yet
    }
    assert samples(path.read_text()) == served
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


def test_a_port_that_is_taken_and_a_folder_that_is_missing_are_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(JobRefusedError, match=rf"127.0.0.1:{port}: .* Choose another --metrics-port"),
            expose_metrics(RunMetrics(), port=port, address="127.0.0.1", path=None),
        ):
            pass
    with (
        pytest.raises(JobRefusedError, match="there is no folder"),
        expose_metrics(RunMetrics(), port=None, address="", path=str(tmp_path / "none" / "file.prom")),
    ):
        pass


def test_every_metric_is_made_as_it_is_declared() -> None:
    names = {family.name for family in RunMetrics().registry.collect()}
    assert names == {one.name for one in METRICS}
