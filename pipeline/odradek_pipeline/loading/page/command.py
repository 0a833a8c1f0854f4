"""`page`: the runs of a table as one HTML file, with plots, lag and the audit, to be kept or served as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odradek_pipeline.errors import JobRefusedError, NotFoundError
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    Command,
    Console,
    OutputSettings,
    ReportSettings,
    SparkSettings,
    Summary,
)

if TYPE_CHECKING:
    from odradek_pipeline.audit.state import AuditState
    from odradek_pipeline.connection.session import SparkConnection
    from odradek_pipeline.loading.page.model import LagRow, MarkRow, PageData, RunRow, WindowRow
    from odradek_pipeline.outputs.output import Committed
    from odradek_pipeline.runs.plans import LogFacts
    from odradek_pipeline.runs.ranges import Holdings


@dataclass(frozen=True, kw_only=True)
class PageSettings(OutputSettings, BrokerConnectionSettings, SparkSettings, ReportSettings):
    """The settings of `page`."""

    file: str = setting("The HTML file to write.", metavar="FILE")
    count: int = setting("How many runs to show, the newest ones.", default=200, at_least=1)
    audit: str | None = setting(
        "The audit's folder or URL; its verdicts become a calendar.", default=None, metavar="PATH"
    )


def run(settings: PageSettings, console: Console) -> Summary:
    """Write the page. Raises PipelineError."""
    from odradek_pipeline.loading.page.document import render_page
    from odradek_pipeline.loading.page.model import judge_table

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
        "output": settings.output,
        "runs": len(data.runs),
        "verdict": level,
        "reasons": "; ".join(sentences),
    }
    return Summary(f"{path} shows {len(data.runs)} runs of {settings.output}", facts)


def read_page_data(settings: PageSettings, console: Console) -> PageData:
    """The page as of now. Raises NotFoundError for a table without runs, and PipelineError."""
    from odradek_pipeline.loading.page.model import PageData
    from odradek_pipeline.work.worker import now_ms, open_history

    with open_history(settings, console) as table:
        found = table.list_runs(settings.count)
        if not found:
            raise NotFoundError(f"{settings.output} has no runs: nothing was loaded into it")
        lag = _read_lag(settings, table.read_newest().holdings, console)
    state = None if settings.audit is None else _read_audit(settings, settings.audit, console)
    return PageData(
        output=settings.output,
        output_format=settings.format,
        made_ms=now_ms(),
        runs=[_run(one) for one in reversed(found)],
        lag=lag,
        windows=None if state is None else _windows(state),
        marks=() if state is None else _marks(state),
        options=() if settings.bootstrap is None else ("--bootstrap", settings.bootstrap),
    )


def _run(one: Committed) -> RunRow:
    from odradek_pipeline.loading.page.model import RunRow

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
    from odradek_pipeline.loading.page.model import LagRow

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
    from pyspark.sql import SparkSession

    from odradek_pipeline.connection.session import PREFIX, ConnectionMissingError, connection_of

    # A Parquet table of this machine needs no session, so --conf is looked at here.
    given = {
        name.removeprefix(PREFIX): value
        for name, value in settings.spark_options().items()
        if name.startswith(PREFIX)
    }
    try:
        return connection_of(SparkSession.getActiveSession(), {**given, **settings.client_settings()})
    except ConnectionMissingError:
        return None


def _read_facts(connection: SparkConnection, topic: str, console: Console) -> list[LogFacts]:
    from odradek_pipeline.connection.topics import read_log_facts
    from odradek_pipeline.runs.positions import position

    latest = position("latest")
    try:
        return read_log_facts(connection.settings, [topic], start=latest, stop=latest, is_read_committed=True)
    except NotFoundError as failure:
        console.notice(f"the page has no lag of {topic}: {failure}")
        return []


def _read_audit(settings: PageSettings, location: str, console: Console) -> AuditState:
    from odradek_pipeline.audit.commands.settings import open_folder

    with open_folder(location, settings, console) as folder:
        return folder.require_newest()


def _windows(state: AuditState) -> list[WindowRow]:
    from odradek_pipeline.loading.page.model import WindowRow

    return [
        WindowRow(topic.topic, tier, one.start_ms, one.word, one.expected, one.found)
        for topic in state.topics.values()
        for tier, verdicts in topic.verdicts.items()
        for one in verdicts.values()
    ]


def _marks(state: AuditState) -> list[MarkRow]:
    from odradek_pipeline.loading.page.model import MarkRow

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


COMMAND = Command("page", "Show the runs of a table as one HTML file.", PageSettings, run)
