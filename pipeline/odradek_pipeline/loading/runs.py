"""`runs`: the history of a table, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from odradek_pipeline.errors import NotFoundError
from odradek_pipeline.loading.settings import RunsSettings
from odradek_pipeline.outputs.output import Committed
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import open_history


def run(settings: RunsSettings, console: Console) -> Summary:
    """The newest runs. Raises NotFoundError for an output that has none."""
    with open_history(settings, console) as table:
        found = table.list_runs(settings.count or None)
    if not found:
        raise NotFoundError(f"{settings.table.output} has no runs: nothing was loaded into it")
    title = f"{settings.table.output}: {len(found)} runs, newest first"
    facts = {"output": settings.table.output, "count": len(found)}
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
