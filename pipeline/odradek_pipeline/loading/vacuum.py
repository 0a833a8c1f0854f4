"""`vacuum`: removes files that are no part of a Parquet table. Delta and Iceberg have commands of their own."""

from __future__ import annotations

from dataclasses import dataclass

from odradek_pipeline.errors import JobRefusedError, NotFoundError
from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import (
    Command,
    Console,
    OutputSettings,
    ReportSettings,
    SparkSettings,
    Summary,
)


@dataclass(frozen=True, kw_only=True)
class VacuumSettings(OutputSettings, SparkSettings, ReportSettings):
    """The settings of `vacuum`."""

    age_hours: int = setting(
        "How long a file has been no part of the table. Readers that began before may still need younger ones.",
        default=24,
        at_least=0,
    )


def run(settings: VacuumSettings, console: Console) -> Summary:
    """Remove what killed runs and replays left. Raises PipelineError."""
    import os

    from odradek_pipeline.outputs.parquet.store import open_store
    from odradek_pipeline.outputs.parquet.vacuum import vacuum
    from odradek_pipeline.runs.record import run_id
    from odradek_pipeline.work.worker import now_ms, open_run_session

    if settings.format != "parquet":
        raise JobRefusedError(
            f"vacuum is for Parquet: {settings.format} has its own, as VACUUM of Delta and expire_snapshots of Iceberg"
        )
    with open_run_session(settings, console) as spark:
        store = open_store(spark, settings.output)
        name = run_id(now_ms(), os.urandom(4))
        made = vacuum(store, name, settings.age_hours * 3_600_000, now_ms)
    if made is None:
        raise NotFoundError(f"{settings.output} has no runs: nothing was loaded into it")
    facts = {
        "output": settings.output,
        "files": made.files,
        "bytes": made.size_bytes,
        "fenced": list(made.fenced),
    }
    return Summary(f"vacuum: {made.files} files removed from {settings.output}", facts)


COMMAND = Command("vacuum", "Remove files that are no part of a Parquet table.", VacuumSettings, run)
