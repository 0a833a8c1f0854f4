"""`page`: the runs of a table as one HTML file, with plots, lag and the audit, to be kept or served as it is."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from odradek_pipeline.audit.collecting.tables import open_folder
from odradek_pipeline.audit.state import AuditState
from odradek_pipeline.connection.session import PREFIX, ConnectionMissingError, SparkConnection, connection_of
from odradek_pipeline.connection.topics import read_log_facts
from odradek_pipeline.errors import JobRefusedError, NotFoundError
from odradek_pipeline.loading.page.document import render_page
from odradek_pipeline.loading.page.model import LagRow, MarkRow, PageData, RunRow, WindowRow, judge_table
from odradek_pipeline.loading.settings import PageSettings
from odradek_pipeline.outputs.output import Committed
from odradek_pipeline.runs.plans import LogFacts
from odradek_pipeline.runs.positions import position
from odradek_pipeline.runs.ranges import Holdings
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import now_ms, open_history


def run(settings: PageSettings, console: Console) -> Summary:
    """Write the page. Raises PipelineError."""
    path = Path(settings.file)
    if not path.absolute().parent.is_dir():
        raise JobRefusedError(f"--file {path}: there is no folder {path.absolute().parent}")
    data = read_page_data(settings, console)
    written = path.with_name(f"{path.name}.new")
    written.write_text(render_page(data), encoding="utf-8")
    written.replace(path)  # a server never has half a page
    level, sentences = judge_table(data)
    facts = {
        "file": str(path),
        "output": settings.table.output,
        "runs": len(data.runs),
        "verdict": level,
        "reasons": "; ".join(sentences),
    }
    return Summary(f"{path} shows {len(data.runs)} runs of {settings.table.output}", facts)


def read_page_data(settings: PageSettings, console: Console) -> PageData:
    """The page as of now. Raises NotFoundError for a table without runs, and PipelineError."""
    with open_history(settings, console) as table:
        found = table.list_runs(settings.count)
        if not found:
            raise NotFoundError(f"{settings.table.output} has no runs: nothing was loaded into it")
        lag = _read_lag(settings, table.read_newest().holdings, console)
    state = None if settings.audit is None else _read_audit(settings, settings.audit, console)
    return PageData(
        output=settings.table.output,
        output_format=settings.table.format,
        made_ms=now_ms(),
        runs=[_run(one) for one in reversed(found)],
        lag=lag,
        windows=None if state is None else _windows(state),
        marks=() if state is None else _marks(state),
        options=() if settings.brokers.bootstrap is None else ("--bootstrap", settings.brokers.bootstrap),
    )


def _run(one: Committed) -> RunRow:
    record = one.record
    return RunRow(
        number=record.number,
        run=record.run,
        kind=record.kind,
        started_ms=record.started_ms,
        committed_ms=record.committed_ms,
        rows=one.rows,
        dead=record.dead_count,
        offsets=record.span,
        lost=sum(range_.span for range_ in record.lost),
        size_bytes=one.size_bytes,
        version=one.version,
        ranges=tuple(map(str, record.ranges)),
    )


def _read_lag(settings: PageSettings, held: Holdings, console: Console) -> list[LagRow] | None:
    """Lag by partition; None where no broker is named. A topic that is gone or made again has none."""
    connection = _connection(settings)
    if connection is None:
        return None
    return [
        LagRow(str(one.key(partition)), end, one.ends[partition])
        for topic in sorted(held.topics)
        for one in _read_facts(connection, topic, console)
        for partition in sorted(one.ends)
        if (end := held.end(one.key(partition))) is not None
    ]


def _connection(settings: PageSettings) -> SparkConnection | None:
    # A Parquet table of this machine needs no session, so --conf is looked at here.
    given = {
        name.removeprefix(PREFIX): value
        for name, value in settings.spark.spark_options().items()
        if name.startswith(PREFIX)
    }
    try:
        return connection_of(SparkSession.getActiveSession(), {**given, **settings.brokers.client_settings()})
    except ConnectionMissingError:
        return None


def _read_facts(connection: SparkConnection, topic: str, console: Console) -> list[LogFacts]:
    latest = position("latest")
    try:
        return read_log_facts(connection.settings, [topic], start=latest, stop=latest, is_read_committed=True)
    except NotFoundError as failure:
        console.notice(f"the page has no lag of {topic}: {failure}")
        return []


def _read_audit(settings: PageSettings, location: str, console: Console) -> AuditState:
    with open_folder(location, settings.spark, console) as folder:
        return folder.require_newest()


def _windows(state: AuditState) -> list[WindowRow]:
    return [
        WindowRow(topic.topic, tier, one.start_ms, one.word, one.expected, one.found)
        for topic in state.topics.values()
        for tier, verdicts in topic.verdicts.items()
        for one in verdicts.values()
    ]


def _marks(state: AuditState) -> list[MarkRow]:
    return [
        MarkRow(
            topic.topic,
            tier,
            None if mark.complete_until_ms < 0 else mark.complete_until_ms,
            mark.blocked_by or "",
        )
        for topic in state.topics.values()
        for tier, mark in topic.watermarks.items()
    ]
