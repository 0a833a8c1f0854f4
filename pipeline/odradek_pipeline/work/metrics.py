"""The driver's metrics for Prometheus: declared here once, served at a port or written to a file.

Spark's own metrics are Spark's to serve. A stream is scraped. A load may end between two scrapes, so it can write a
file too, for the textfile collector of a node exporter.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    start_http_server,
    write_to_textfile,
)

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.runs.plans import LogFacts
from odradek_pipeline.runs.ranges import Holdings, PartitionKey
from odradek_pipeline.runs.record import RunRecord

_SECONDS: Final = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True)
class RunMetric:
    """One metric. `kind` is counter, gauge or histogram; a counter's samples have `_total` behind the name."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def shown_name(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name


RUNS: Final = RunMetric(
    "odradek_pipeline_runs", "counter", ("kind", "outcome"), "Runs by outcome: committed or failed."
)
ROWS: Final = RunMetric("odradek_pipeline_rows", "counter", ("kind",), "Rows committed.")
BYTES: Final = RunMetric("odradek_pipeline_bytes", "counter", ("kind",), "Bytes of files committed.")
OFFSETS: Final = RunMetric(
    "odradek_pipeline_offsets",
    "counter",
    ("kind",),
    "Offsets of the ranges committed, with or without a row.",
)
DEAD_LETTERS: Final = RunMetric(
    "odradek_pipeline_dead_letters", "counter", ("topic",), "Records that could not be read, by their topic."
)
LOST_OFFSETS: Final = RunMetric(
    "odradek_pipeline_lost_offsets", "counter", ("topic",), "Offsets that runs passed over as truncated."
)
RUN_SECONDS: Final = RunMetric(
    "odradek_pipeline_run_seconds", "histogram", ("kind",), "Seconds from a run's plan to its commit."
)
LAST_COMMIT: Final = RunMetric(
    "odradek_pipeline_last_commit_timestamp_seconds",
    "gauge",
    (),
    "When the table's newest run was committed.",
)
RUN_NUMBER: Final = RunMetric(
    "odradek_pipeline_run_number", "gauge", (), "The number of the table's newest run; each batch is a run."
)
BATCH_NUMBER: Final = RunMetric(
    "odradek_pipeline_batch_number", "gauge", ("query",), "The number of a stream's newest batch."
)
LAG: Final = RunMetric(
    "odradek_pipeline_lag_offsets",
    "gauge",
    ("topic", "partition"),
    "Offsets that a run could read and the table does not hold yet, as of the last look at the log.",
)
METRICS: Final = (
    RUNS,
    ROWS,
    BYTES,
    OFFSETS,
    DEAD_LETTERS,
    LOST_OFFSETS,
    RUN_SECONDS,
    LAST_COMMIT,
    RUN_NUMBER,
    BATCH_NUMBER,
    LAG,
)


class RunMetrics:
    """The metrics of one driver. Its methods say what happened; they may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._made: Mapping[str, Any] = {one.name: _make_metric(one, self.registry) for one in METRICS}
        self._ends: dict[PartitionKey, int] = {}
        self._held: Holdings | None = None
        self._lock = threading.Lock()

    def note_ends(self, facts: Sequence[LogFacts]) -> None:
        with self._lock:
            self._ends |= {one.key(partition): end for one in facts for partition, end in one.ends.items()}
        self._set_lag()

    def note_holdings(self, newest: RunRecord | None, held: Holdings) -> None:
        self._held = held
        if newest is not None:
            self._of(LAST_COMMIT).set(newest.committed_ms / 1000)
            self._of(RUN_NUMBER).set(newest.number)
            for query, state in newest.queries.items():
                self._of(BATCH_NUMBER).labels(query).set(state.batch)
        self._set_lag()

    def count_commit(self, record: RunRecord, rows: int | None, size_bytes: int | None) -> None:
        self._of(RUNS).labels(record.kind, "committed").inc()
        self._of(ROWS).labels(record.kind).inc(rows or 0)
        self._of(BYTES).labels(record.kind).inc(size_bytes or 0)
        self._of(OFFSETS).labels(record.kind).inc(record.span)
        self._of(RUN_SECONDS).labels(record.kind).observe((record.committed_ms - record.started_ms) / 1000)
        for dead in record.dead:
            self._of(DEAD_LETTERS).labels(dead.within.key.topic).inc(dead.count)
        for lost in record.lost:
            self._of(LOST_OFFSETS).labels(lost.key.topic).inc(lost.span)
        self.note_holdings(record, record.holdings)

    def count_failure(self, kind: str) -> None:
        self._of(RUNS).labels(kind, "failed").inc()

    def _set_lag(self) -> None:
        if self._held is None:
            return
        with self._lock:
            ends = dict(self._ends)
        for key, end in ends.items():
            held = self._held.end(key)
            if held is not None:
                self._of(LAG).labels(key.topic, str(key.partition)).set(max(end - held, 0))

    def _of(self, metric: RunMetric) -> Any:
        return self._made[metric.name]


@contextmanager
def expose_metrics(
    metrics: RunMetrics, *, port: int | None, address: str, path: str | None
) -> Iterator[int | None]:
    """Serve the metrics at a port while this lasts, and write them to a file at its end. Yields the port.

    Port 0 is any that is free. Raises JobRefusedError for a port that is taken, or a folder that is not there.
    """
    server, thread = None, None
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise JobRefusedError(f"--metrics-file {path}: there is no folder {Path(path).absolute().parent}")
    if port is not None:
        try:
            server, thread = start_http_server(port, address, metrics.registry)
        except OSError as failure:
            raise JobRefusedError(
                f"the metrics cannot be served at {address}:{port}: {failure.strerror}. Choose another --metrics-port"
            ) from failure
    try:
        yield None if server is None else int(server.server_port)
    finally:
        if server is not None and thread is not None:
            server.shutdown()
            server.server_close()
            thread.join()
        if path is not None:
            write_to_textfile(path, metrics.registry)


def _make_metric(metric: RunMetric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    if metric.kind == "histogram":
        return Histogram(metric.name, metric.meaning, metric.labels, registry=registry, buckets=_SECONDS)
    kind = Counter if metric.kind == "counter" else Gauge
    return kind(metric.name, metric.meaning, metric.labels, registry=registry)
