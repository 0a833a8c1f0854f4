"""The common part of load and replay: the session, reader and output by name, the log's facts, what is counted, and the
summary.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.connection.java import end_session, quiet_start, signals_after
from odradek_pipeline.connection.session import (
    SparkConnection,
    connection_of,
    jars_for,
    open_session,
    options_for,
    with_packages,
)
from odradek_pipeline.connection.topics import read_log_facts
from odradek_pipeline.errors import JobRefusedError, TerminatedError
from odradek_pipeline.outputs.output import Committed, MergingOutput, OutputState, RunHistory, TableOutput
from odradek_pipeline.outputs.parquet.output import ParquetHistory
from odradek_pipeline.outputs.parquet.store import LocalStore, is_local, local_path
from odradek_pipeline.runs.plans import LogFacts, Plan
from odradek_pipeline.runs.positions import RunPosition
from odradek_pipeline.runs.ranges import OffsetRange
from odradek_pipeline.runs.record import REFRESH, SNAPSHOT, RunRecord, run_id
from odradek_pipeline.runs.steps import CONNECTED, METRICS_SERVED, Steps
from odradek_pipeline.settings.groups import (
    DELTA,
    FORMATS,
    ICEBERG,
    KAFKA,
    ODRADEK,
    PARQUET,
    READERS,
    MetricsSettings,
    ReaderSettings,
    RunUse,
    SparkSettings,
    TableUse,
)
from odradek_pipeline.work import late
from odradek_pipeline.work.command import RANGES, Console, Summary
from odradek_pipeline.work.metrics import RunMetrics, expose_metrics
from odradek_pipeline.work.reading.reader import Reader, ReadOptions


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class RunWorker:
    """One run at work: where it reads, where it writes, and to what it reports."""

    spark: SparkSession
    connection: SparkConnection
    output: TableOutput
    steps: Steps
    metrics: RunMetrics

    def read_facts(
        self, topics: Sequence[str], start: RunPosition, stop: RunPosition, reading: ReaderSettings
    ) -> list[LogFacts]:
        """The log's facts of `topics`, through the project's client."""
        facts = read_log_facts(
            self.connection.settings,
            topics,
            start=start,
            stop=stop,
            is_read_committed=reading.is_read_committed,
        )
        self.metrics.note_ends(facts)
        self.steps(CONNECTED, topics=len(topics), partitions=sum(len(one.ends) for one in facts))
        return facts

    def read_frame(self, ranges: Sequence[OffsetRange], reading: ReaderSettings) -> DataFrame:
        """The records of `ranges`, by the reader that the settings name."""
        options = ReadOptions(reading.is_read_committed, reading.records_per_task)
        return make_reader(reading.reader).read_frame(self.spark, self.connection, ranges, options)


@contextmanager
def open_worker(settings: RunUse, console: Console, decoded: Sequence[str] = ()) -> Iterator[RunWorker]:
    """A worker with a session that ends with it. `decoded` are the formats of keys and values."""
    table, client_settings = settings.table, settings.brokers.client_settings()
    with open_spark_session(table.format, settings.spark, console, settings.reading.reader, decoded) as spark:
        connection = connection_of(spark, client_settings)
        metrics = RunMetrics()
        output = observe_output(open_output(spark, table.format, table.output), metrics)
        with serve_metrics(metrics, settings.metrics, console):
            yield RunWorker(spark, connection, output, console.steps, metrics)


@contextmanager
def serve_metrics(metrics: RunMetrics, settings: MetricsSettings, console: Console) -> Iterator[None]:
    """Show the metrics as the settings ask for it, if they do."""
    port, path = settings.metrics_port, settings.metrics_file
    with expose_metrics(metrics, port=port, address=settings.metrics_address, path=path) as served:
        if served is not None:
            console.steps(METRICS_SERVED, port=served)
        yield


@contextmanager
def open_table(settings: TableUse, console: Console) -> Iterator[TableOutput]:
    table = settings.table
    with open_spark_session(table.format, settings.spark, console) as spark:
        yield open_output(spark, table.format, table.output)


@contextmanager
def open_history(settings: TableUse, console: Console) -> Iterator[RunHistory]:
    """A table's history, with a Spark session only where its format or store needs one."""
    table = settings.table
    if table.format == PARQUET and is_local(table.output):
        yield ParquetHistory(LocalStore(local_path(table.output)))
        return
    with open_table(settings, console) as output:
        yield output


@contextmanager
def open_spark_session(
    output_format: str,
    settings: SparkSettings,
    console: Console,
    reader: str | None = None,
    decoded: Sequence[str] = (),
) -> Iterator[SparkSession]:
    """Spark's session for tables of a format. One that was there before stays."""
    options = options_for(output_format, settings.spark_options())
    options.setdefault("spark.ui.showConsoleProgress", "false")  # the console has a bar of its own
    if settings.fetch_jars:
        options = with_packages(options, jars_for(output_format, reader, decoded))
    was_there = SparkSession.getActiveSession() is not None
    spark: SparkSession | None = None
    is_cut_off = False
    try:
        with signals_after(), quiet_start():
            spark = open_session("odradek-pipeline", options)
        console.watch(spark)
        yield spark
    except (KeyboardInterrupt, TerminatedError):
        is_cut_off = True
        raise
    finally:
        if spark is not None and not was_there:
            if is_cut_off:
                end_session(spark)
            else:
                spark.stop()


def new_record(kind: str, known: OutputState, plan: Plan, replaced: Sequence[str] = ()) -> RunRecord:
    """The record of a run that begins now. Raises JobRefusedError where the output has rows of another kind."""
    if known.record is not None and kind != REFRESH and bool(known.snapshots) != (kind == SNAPSHOT):
        there = "the last values of keys" if known.snapshots else "all records"
        raise JobRefusedError(
            f"the table has {there}, which `{kind}` would mix with others: name another --output"
        )
    moment_ms = now_ms()
    return RunRecord(
        run=run_id(moment_ms, os.urandom(4)),
        kind=kind,
        number=known.next_number,
        cluster_id=plan.cluster_id,
        ranges=plan.ranges,
        holdings=plan.holdings,
        started_ms=moment_ms,
        lost=plan.lost,
        replaced=tuple(replaced),
        queries=known.queries,
        columns=() if known.record is None else known.record.columns,
        snapshots=known.snapshots,
    )


def summarize_run(committed: Committed, output: str) -> Summary:
    record = committed.record
    seconds = (record.committed_ms - record.started_ms) / 1000
    gaps = None if committed.rows is None else record.span - committed.rows - record.dead_count
    facts: dict[str, Any] = {
        "kind": record.kind,
        "run": record.run,
        "number": record.number,
        "output": output,
        "version": committed.version,
        "rows": committed.rows,
        "dead_letters": record.dead_count,
        "offsets": record.span,
        "offsets_without_row": gaps,
        "bytes": committed.size_bytes,
        "files": committed.files,
        "lost_offsets": sum(one.span for one in record.lost),
        "seconds": round(seconds, 3),
    }
    rows = [
        {"topic": one.key.topic, "partition": one.key.partition, "start": one.start, "end": one.end}
        for one in record.ranges
    ]
    title = f"{record.kind} {record.run}: {committed.rows} rows into {output}"
    return Summary(title, facts, rows, rows_name=RANGES)


def summarize_nothing(kind: str, output: str, known: OutputState) -> Summary:
    """The answer of a run that has nothing to read."""
    facts = {"kind": kind, "run": None, "output": output, "version": known.version, "rows": 0, "offsets": 0}
    return Summary(f"{kind}: {output} holds all there is", facts, rows_name=RANGES)


class ObservedOutput:
    """As the output that it stands for, whose commits and failures it counts."""

    def __init__(self, output: TableOutput, metrics: RunMetrics) -> None:
        self._output = output
        self._metrics = metrics

    def read_newest(self) -> OutputState:
        known = self._output.read_newest()
        self._metrics.note_holdings(known.record, known.holdings)
        return known

    def commit(self, known: OutputState, record: RunRecord, rows: DataFrame, steps: Steps) -> Committed:
        committed = self._output.commit(known, record, rows, steps)
        self._metrics.count_commit(committed.record, committed.rows, committed.size_bytes)
        return committed

    def list_runs(self, count_max: int | None) -> Sequence[Committed]:
        return self._output.list_runs(count_max)

    def read_rows(self) -> DataFrame | None:
        return self._output.read_rows()


class ObservedMergingOutput(ObservedOutput):
    """As a table that can change single rows."""

    def __init__(self, output: MergingOutput, metrics: RunMetrics) -> None:
        super().__init__(output, metrics)
        self._merging = output

    def merge(self, known: OutputState, record: RunRecord, changes: DataFrame, steps: Steps) -> Committed:
        committed = self._merging.merge(known, record, changes, steps)
        self._metrics.count_commit(committed.record, committed.rows, committed.size_bytes)
        return committed


def observe_output(output: TableOutput, metrics: RunMetrics) -> TableOutput:
    if isinstance(output, MergingOutput):
        return ObservedMergingOutput(output, metrics)
    return ObservedOutput(output, metrics)


# Outputs and readers by the names that settings have. A new one is a row here; its module is imported when it is asked
# for.


def open_output(spark: SparkSession, kind: str, location: str) -> TableOutput:
    """The output of that kind: a folder or URL for Parquet and Delta, a table's name for Iceberg.

    Raises JobRefusedError.
    """
    if kind == PARQUET:
        return late.ParquetOutput(spark, location)
    if kind == DELTA:
        return late.DeltaOutput(spark, location)
    if kind == ICEBERG:
        return late.IcebergOutput(spark, location)
    raise JobRefusedError(f"there is no format {kind!r}: it must be {FORMATS}")


def make_reader(name: str) -> Reader:
    """The reader of that name. Raises JobRefusedError."""
    if name == KAFKA:
        return late.KafkaReader()
    if name == ODRADEK:
        return late.OdradekReader()
    raise JobRefusedError(f"there is no reader {name!r}: it must be {READERS}")
