"""`load`: a topic's records into a table, from where the table ends. Offsets and rows are one commit."""

from __future__ import annotations

from dataclasses import dataclass

from odradek_pipeline.runs.positions import position
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    BrokerConnectionSettings,
    Command,
    Console,
    OutputSettings,
    ReadingSettings,
    ReportSettings,
    SparkSettings,
    Summary,
    TopicsSettings,
)


@dataclass(frozen=True, kw_only=True)
class LoadSettings(
    TopicsSettings, BrokerConnectionSettings, OutputSettings, ReadingSettings, SparkSettings, ReportSettings
):
    """The settings of `load`."""

    stop: str = setting(
        "The first that is not loaded: latest, a time, or offsets as 0:1500,1:1480.",
        default="latest",
        metavar="POSITION",
    )


def run(settings: LoadSettings, console: Console) -> Summary:
    """Load what is new. Raises PipelineError."""
    from odradek_pipeline.dead_letters.bad_records import commit_ranges
    from odradek_pipeline.runs.plans import plan_load
    from odradek_pipeline.runs.record import LOAD, REFRESH
    from odradek_pipeline.work.worker import new_record, open_worker, summarize_nothing, summarize_run

    start, stop = position(settings.start), position(settings.stop)
    topics = list(dict.fromkeys(settings.topic))
    with open_worker(settings, settings.client_settings(), console) as work:
        known = work.output.read_newest()
        plan = plan_load(
            known.holdings,
            work.read_facts(topics, start, stop, settings),
            start=start,
            stop=stop,
            on_truncated=settings.on_truncated,
            on_recreated=settings.on_recreated,
        )
        for lost in plan.lost:
            console.notice(f"passed over {lost}: the log no longer has these offsets")
        has_news = bool(plan.ranges or plan.lost) or plan.holdings != known.holdings
        if not has_news and not known.is_covered:
            return summarize_nothing(LOAD, settings.output, known)
        record = new_record(LOAD if has_news else REFRESH, known, plan)
        return summarize_run(commit_ranges(work, known, record, settings), settings.output)


COMMAND = Command(
    "load", "Load a topic's records into a table, from where the table ends.", LoadSettings, run
)
