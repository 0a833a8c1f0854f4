"""`audit tiles`: the ranges of all runs, rows and dead letters against the log, with no producer's help."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek_pipeline.audit.commands.settings import LetterTopicSettings
from odradek_pipeline.errors import JobRefusedError, NotFoundError, PipelineExitCode
from odradek_pipeline.runs.steps import CONNECTED, FINISHED, PLANNED
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
    from odradek.client.client import Client
    from odradek_pipeline.audit.tiles import RangesRead, RowsHeld, Tiling
    from odradek_pipeline.outputs.output import TableOutput
    from odradek_pipeline.runs.ranges import PartitionKey

_NAMED_MAX = 100  # faults in a summary


@dataclass(frozen=True, kw_only=True)
class TilesSettings(
    BrokerConnectionSettings, OutputSettings, LetterTopicSettings, SparkSettings, ReportSettings
):
    """The settings of `audit tiles`."""

    topic: tuple[str, ...] = setting(
        "A topic to look at. May be repeated; all that the table holds without it.",
        default=(),
        metavar="NAME",
    )
    isolation: str = setting(
        "How the table was loaded.",
        default="read_committed",
        choices=("read_committed", "read_uncommitted"),
    )


def run(settings: TilesSettings, console: Console) -> Summary:
    """Lay the tiles. The exit code is 0, or `unexplained`. Raises PipelineError."""
    from odradek_pipeline.audit.tiles import find_foreign_rows
    from odradek_pipeline.outputs.named import open_output
    from odradek_pipeline.work.worker import open_run_session

    with open_run_session(settings, console) as spark:
        output = open_output(spark, settings.format, settings.output)
        reads, former = _list_reads(settings, output)
        console.steps(PLANNED, partitions=len(reads))
        held = _read_rows(output)
        tilings = asyncio.run(_lay_all(settings, reads, held, console))
    console.steps(FINISHED)
    faults = [fault for one in tilings for fault in one.faults]
    if former is not None:
        known = {*former, *(one.key for one in reads)}
        rows = {key: spans for key, spans in held[0].items() if key.topic in (settings.topic or (key.topic,))}
        faults += find_foreign_rows(rows, known)
    compared = {one.key for one in tilings}
    facts = {
        "output": settings.output,
        "partitions": len(tilings),
        "not_compared": [str(one.key) for one in reads if one.key not in compared],
        "rows": sum(one.rows for one in tilings),
        "unexplained": sum(one.end - one.start for one in faults),
        "faults": [str(one) for one in faults[:_NAMED_MAX]],
    }
    word = f"{len(faults)} spans of offsets are not explained" if faults else "every offset is explained"
    code = PipelineExitCode.UNEXPLAINED if faults else PipelineExitCode.OK
    return Summary(f"{settings.output}: {word}", facts, [_row(one) for one in tilings], code, "tiles")


def _list_reads(
    settings: TilesSettings, output: TableOutput
) -> tuple[list[RangesRead], frozenset[PartitionKey] | None]:
    """Return the ranges that the runs of the table read, by partition, and all partitions of any run.

    Those are None where the history begins later than the table. Raises NotFoundError for a table without runs.
    """
    from odradek_pipeline.audit.tiles import ranges_read
    from odradek_pipeline.runs.record import EXTENDING

    known = output.read_newest()
    if known.record is None:
        raise NotFoundError(f"{settings.output} has no runs: nothing was loaded into it")
    if known.snapshots:
        raise JobRefusedError(f"{settings.output} has the last value of each key, so its rows tile no log")
    records = [one.record for one in output.list_runs(None)]
    ranges = [range_ for one in records if one.kind in EXTENDING for range_ in one.ranges]
    lost = [range_ for one in records for range_ in one.lost]
    is_whole = bool(records) and min(one.number for one in records) == 1
    wanted = list(settings.topic) or None
    reads = [
        ranges_read(held.key, (held.start, held.end), ranges, lost, is_whole=is_whole)
        for held in known.holdings.ranges(wanted)
    ]
    return reads, frozenset(one.key for one in ranges) if is_whole else None


def _read_rows(output: TableOutput) -> Any:
    from odradek_pipeline.audit.collecting.table_spans import read_row_spans

    rows = output.read_rows()
    return ({}, {}) if rows is None else read_row_spans(rows)


async def _lay_all(
    settings: TilesSettings, reads: list[RangesRead], rows: Any, console: Console
) -> list[Tiling]:
    from odradek_pipeline.audit.collecting.letters import OriginPartition, spans_of
    from odradek_pipeline.audit.tiles import RowsHeld
    from odradek_pipeline.connection.clients import connect_client
    from odradek_pipeline.connection.session import connection_of

    connection = connection_of(None, settings.client_settings())
    spans, doubled = rows
    made = []
    async with connect_client(connection.settings, "the log cannot be compared") as client:
        dead = await settings.read_letters(client, {one.key.topic for one in reads})
        console.steps(CONNECTED, partitions=len(reads))
        for read in reads:
            held = RowsHeld(
                spans.get(read.key, ()),
                doubled.get(read.key, ()),
                spans_of(dead.get(OriginPartition(read.key.topic_id, read.key.partition), {})),
            )
            tiling = await _lay_partition(client, settings, read, held, console)
            if tiling is not None:
                made.append(tiling)
    return made


async def _lay_partition(
    client: Client, settings: TilesSettings, read: RangesRead, held: RowsHeld, console: Console
) -> Tiling | None:
    """One partition against its log. None where the topic is gone or another one now, and its log with it."""
    from odradek.client.admin.admin import Admin
    from odradek.client.admin.logs import EARLIEST
    from odradek.client.admin.results import ResourceType
    from odradek.foundation.errors import UnknownTopicOrPartition
    from odradek.foundation.ids import TopicPartition
    from odradek_pipeline.audit.collecting.log_picture import read_picture, read_spans
    from odradek_pipeline.audit.tiles import find_gaps, lay_tiles

    key = TopicPartition(read.key.topic, read.key.partition)
    try:
        topic_id = str((await client.topics((key.topic,))).topic(key.topic).id)
    except UnknownTopicOrPartition:
        console.notice(f"{read.key}: the topic was deleted, so this log cannot be compared any more")
        return None
    if topic_id != read.key.topic_id:
        console.notice(f"{read.key}: the topic was made again since, so this log cannot be compared any more")
        return None
    admin = Admin(client)
    configs = await admin.configs.describe(ResourceType.TOPIC, key.topic, keys=["cleanup.policy"])
    is_compacted = any("compact" in (one.value or "") for one in configs)
    start = (await admin.logs.offsets_at([key], EARLIEST))[key]
    first = max(start, read.held[0])
    is_read_committed = settings.isolation == "read_committed"
    found = await read_spans(client, {key: (first, read.held[1])}, is_read_committed=is_read_committed)
    unread = find_gaps(read, held, start, found[key])
    picture = await read_picture(client, key, start, found[key], unread, is_compacted=is_compacted)
    return lay_tiles(read, held, picture)


def _row(one: Tiling) -> dict[str, Any]:
    return {
        "topic": one.key.topic,
        "partition": one.key.partition,
        "start": one.held[0],
        "end": one.held[1],
        "rows": one.rows,
        "dead": one.dead,
        "control": one.control,
        "aborted": one.aborted,
        "compacted": one.compacted,
        "passed_over": one.passed_over,
        "unchecked": one.unchecked,
        "unexplained": sum(fault.end - fault.start for fault in one.faults),
    }


COMMAND = Command(
    "audit tiles",
    "Compare a table with the log by offsets, and name what nothing explains.",
    TilesSettings,
    run,
)
