"""`vacuum`: removes files that are no part of a Parquet table. Delta and Iceberg have commands of their own."""

from __future__ import annotations

import os

from odradek_pipeline.errors import JobRefusedError, NotFoundError
from odradek_pipeline.loading.settings import VacuumSettings
from odradek_pipeline.outputs.parquet.store import open_store
from odradek_pipeline.outputs.parquet.vacuum import vacuum
from odradek_pipeline.runs.record import run_id
from odradek_pipeline.settings.groups import PARQUET
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.worker import now_ms, open_spark_session


def run(settings: VacuumSettings, console: Console) -> Summary:
    """Remove what killed runs and replays left. Raises PipelineError."""
    if settings.table.format != PARQUET:
        raise JobRefusedError(
            f"vacuum is for Parquet: {settings.table.format} has its own, as VACUUM of Delta and expire_snapshots of "
            "Iceberg"
        )
    with open_spark_session(PARQUET, settings.spark, console) as spark:
        store = open_store(spark, settings.table.output)
        name = run_id(now_ms(), os.urandom(4))
        made = vacuum(store, name, settings.age_hours * 3_600_000, now_ms)
    if made is None:
        raise NotFoundError(f"{settings.table.output} has no runs: nothing was loaded into it")
    facts = {
        "output": settings.table.output,
        "files": made.files,
        "bytes": made.size_bytes,
        "fenced": list(made.fenced),
    }
    return Summary(f"vacuum: {made.files} files removed from {settings.table.output}", facts)
