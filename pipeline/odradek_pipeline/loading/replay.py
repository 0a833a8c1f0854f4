"""`replay`: ranges that a table holds, read again. Their rows take the place of those that are there."""

from __future__ import annotations

from collections.abc import Iterable

from odradek_pipeline.errors import NotFoundError, PipelineSettingError
from odradek_pipeline.loading.load import commit_ranges
from odradek_pipeline.loading.settings import ReplaySettings
from odradek_pipeline.outputs.output import Committed
from odradek_pipeline.runs.plans import plan_replay, ranges_between
from odradek_pipeline.runs.positions import position
from odradek_pipeline.runs.ranges import OffsetRange
from odradek_pipeline.runs.record import REPLAY
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import new_record, open_worker, summarize_nothing, summarize_run


def run(settings: ReplaySettings, console: Console) -> Summary:
    """Replace the rows of some ranges. Raises PipelineError."""
    is_by_run = bool(settings.run or settings.since_run)
    if is_by_run == bool(settings.start or settings.stop):
        raise PipelineSettingError("say what to read again: --run or --since-run, or else --start and --stop")
    start, stop = position(settings.start or "earliest"), position(settings.stop or "latest")
    with open_worker(settings, console, decoded=settings.decoding.formats) as work:
        known = work.output.read_newest()
        if known.record is None:
            raise NotFoundError(f"{settings.table.output} has no runs: nothing was loaded into it")
        wanted: Iterable[OffsetRange] = ()
        runs: list[str] = []
        if is_by_run:
            found = choose_runs(settings, work.output.list_runs(None))
            runs = [one.record.run for one in found]
            wanted = [range_ for one in found for range_ in one.record.ranges]
            topics = sorted({one.key.topic for one in wanted})
        else:
            topics = list(dict.fromkeys(settings.topic or known.holdings.topics))
        facts = work.read_facts(topics, start, stop, settings.reading)
        if not is_by_run:
            wanted = ranges_between(known.holdings, facts, start, stop)
        plan = plan_replay(known.holdings, facts, wanted, on_truncated=settings.reading.on_truncated)
        for lost in plan.lost:
            console.notice(f"left as it is: {lost}, which the log no longer has")
        if not plan.ranges:
            return summarize_nothing(REPLAY, settings.table.output, known)
        record = new_record(REPLAY, known, plan, runs)
        return summarize_run(commit_ranges(work, known, record, settings), settings.table.output)


def choose_runs(settings: ReplaySettings, runs: Iterable[Committed]) -> list[Committed]:
    """The runs that are asked for, of all `runs`, newest first. Raises NotFoundError."""
    found: list[Committed] = []
    left = set(settings.run)
    is_since = settings.since_run is not None
    for one in runs:
        if is_since or one.record.run in left:
            found.append(one)
            left.discard(one.record.run)
        is_since = is_since and one.record.run != settings.since_run
        if not is_since and not left:
            return found
    missing = [*sorted(left), *([settings.since_run] if is_since and settings.since_run else [])]
    raise NotFoundError(
        f"{settings.table.output} has no run {', '.join(missing)}: `odradek-pipeline runs` shows its runs"
    )
