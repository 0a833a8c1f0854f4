"""`load`: a topic's records into a table, from where the table ends. Offsets and rows are one commit.

`commit_ranges` is what every command does that loads: replays and streams too.
"""

from __future__ import annotations

from odradek_pipeline.dead_letters.bad_records import Decoding
from odradek_pipeline.loading.settings import LoadSettings
from odradek_pipeline.outputs.columns import no_rows
from odradek_pipeline.outputs.output import Committed, OutputState
from odradek_pipeline.runs.plans import plan_load
from odradek_pipeline.runs.positions import position
from odradek_pipeline.runs.record import LOAD, REFRESH, RunRecord
from odradek_pipeline.runs.steps import FINISHED, PLANNED
from odradek_pipeline.settings.groups import DecodingUse
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import RunWorker, new_record, open_worker, summarize_nothing, summarize_run


def run(settings: LoadSettings, console: Console) -> Summary:
    """Load what is new. Raises PipelineError."""
    start, stop = position(settings.topics.start), position(settings.stop)
    with open_worker(settings, console, decoded=settings.decoding.formats) as work:
        known = work.output.read_newest()
        plan = plan_load(
            known.holdings,
            work.read_facts(settings.topics.names, start, stop, settings.reading),
            start=start,
            stop=stop,
            on_truncated=settings.reading.on_truncated,
            on_recreated=settings.topics.on_recreated,
        )
        for lost in plan.lost:
            console.notice(f"passed over {lost}: the log no longer has these offsets")
        has_news = bool(plan.ranges or plan.lost) or plan.holdings != known.holdings
        if not has_news and not known.is_covered:
            return summarize_nothing(LOAD, settings.table.output, known)
        record = new_record(LOAD if has_news else REFRESH, known, plan)
        return summarize_run(commit_ranges(work, known, record, settings), settings.table.output)


def commit_ranges(work: RunWorker, known: OutputState, record: RunRecord, settings: DecodingUse) -> Committed:
    """Read the record's ranges and commit them with it. Raises PipelineError."""
    try:
        decoding = Decoding.of(settings, work.connection, record.run, work.steps)
        work.steps(PLANNED, ranges=len(record.ranges), span=record.span)
        if not record.ranges:
            committed = work.output.commit(known, record, no_rows(work.spark, record.columns), work.steps)
        else:
            frame = work.read_frame(record.ranges, settings.reading)
            with decoding.split_rows(frame, record) as (rows, decoded):
                committed = work.output.commit(known, decoded, rows, work.steps)
        work.steps(FINISHED)
        return committed
    except Exception:
        work.metrics.count_failure(record.kind)
        raise
