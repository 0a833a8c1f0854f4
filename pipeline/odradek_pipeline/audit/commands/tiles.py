"""`audit tiles`: the ranges of all runs, rows and dead letters against the log, with no producer's help."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST
from odradek.client.client import Client
from odradek.client.results import ResourceType
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.audit.collecting.letters import OriginPartition, read_letters, spans_of
from odradek_pipeline.audit.collecting.log_picture import read_picture, read_spans
from odradek_pipeline.audit.collecting.table_rows import read_row_spans
from odradek_pipeline.audit.commands.settings import TilesSettings
from odradek_pipeline.audit.tiles import (
    RangesRead,
    RowsHeld,
    Tiling,
    find_foreign_rows,
    find_gaps,
    lay_tiles,
    ranges_read,
)
from odradek_pipeline.connection.clients import connect_client
from odradek_pipeline.connection.session import connection_of
from odradek_pipeline.errors import JobRefusedError, NotFoundError, PipelineExitCode
from odradek_pipeline.outputs.output import TableOutput
from odradek_pipeline.runs.ranges import PartitionKey
from odradek_pipeline.runs.record import EXTENDING
from odradek_pipeline.runs.steps import CONNECTED, FINISHED, PLANNED
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import open_table

_NAMED_MAX = 100  # faults in a summary


def run(settings: TilesSettings, console: Console) -> Summary:
    """Lay the tiles. The exit code is 0, or `unexplained`. Raises PipelineError."""
    with open_table(settings, console) as output:
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
        "output": settings.table.output,
        "partitions": len(tilings),
        "not_compared": [str(one.key) for one in reads if one.key not in compared],
        "rows": sum(one.rows for one in tilings),
        "unexplained": sum(one.end - one.start for one in faults),
        "faults": [str(one) for one in faults[:_NAMED_MAX]],
    }
    word = f"{len(faults)} spans of offsets are not explained" if faults else "every offset is explained"
    code = PipelineExitCode.UNEXPLAINED if faults else PipelineExitCode.OK
    return Summary(f"{settings.table.output}: {word}", facts, [_row(one) for one in tilings], code, "tiles")


def _list_reads(
    settings: TilesSettings, output: TableOutput
) -> tuple[list[RangesRead], frozenset[PartitionKey] | None]:
    """Return the ranges that the runs of the table read, by partition, and all partitions of any run.

    Those are None where the history begins later than the table. Raises NotFoundError for a table without runs.
    """
    known = output.read_newest()
    if known.record is None:
        raise NotFoundError(f"{settings.table.output} has no runs: nothing was loaded into it")
    if known.snapshots:
        raise JobRefusedError(
            f"{settings.table.output} has the last value of each key, so its rows tile no log"
        )
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
    rows = output.read_rows()
    return ({}, {}) if rows is None else read_row_spans(rows)


async def _lay_all(
    settings: TilesSettings, reads: list[RangesRead], rows: Any, console: Console
) -> list[Tiling]:
    connection = connection_of(None, settings.brokers.client_settings())
    spans, doubled = rows
    made = []
    async with connect_client(connection.settings, "the log cannot be compared") as client:
        dead = await read_letters(
            client, settings.letters.dead_letter_topic, {one.key.topic for one in reads}
        )
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
