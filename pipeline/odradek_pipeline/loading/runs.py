"""`runs`: the history of a table, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from odradek_pipeline.errors import NotFoundError
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    Command,
    Console,
    OutputSettings,
    ReportSettings,
    SparkSettings,
    Summary,
)

if TYPE_CHECKING:
    from odradek_pipeline.outputs.output import Committed


@dataclass(frozen=True, kw_only=True)
class RunsSettings(OutputSettings, SparkSettings, ReportSettings):
    """The settings of `runs`."""

    count: int = setting("How many runs to show; 0 shows all.", default=20, at_least=0)


def run(settings: RunsSettings, console: Console) -> Summary:
    """The newest runs. Raises NotFoundError for an output that has none."""
    from odradek_pipeline.work.worker import open_history

    with open_history(settings, console) as table:
        found = table.list_runs(settings.count or None)
    if not found:
        raise NotFoundError(f"{settings.output} has no runs: nothing was loaded into it")
    title = f"{settings.output}: {len(found)} runs, newest first"
    facts = {"output": settings.output, "count": len(found)}
    return Summary(title, facts, [_row(one) for one in found], rows_name="runs")


def _row(one: Committed) -> Mapping[str, Any]:
    record = one.record
    committed = datetime.fromtimestamp(record.committed_ms / 1000, UTC)
    return {
        "number": record.number,
        "run": record.run,
        "kind": record.kind,
        "committed": f"{committed:%Y-%m-%dT%H:%M:%SZ}",
        "rows": one.rows,
        "dead_letters": record.dead_count,
        "offsets": record.span,
        "lost": sum(range_.span for range_ in record.lost),
        "version": one.version,
        "ranges": ", ".join(map(str, record.ranges)),
    }


COMMAND = Command("runs", "Show the runs of a table, newest first.", RunsSettings, run)
