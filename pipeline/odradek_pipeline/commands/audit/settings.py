"""What the subcommands of `audit` share: the folder, its state, and how times are shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from odradek_pipeline.commands.command import Console, OutputSettings, SparkSettings
from odradek_pipeline.settings.declared import setting

if TYPE_CHECKING:
    from odradek_pipeline.collecting.tables import AuditFolder

TIERS = ("stored", "loaded", "mirrored")


@dataclass(frozen=True, kw_only=True)
class AuditSettings(SparkSettings):
    """Where the audit is. Spark is started for folders that are not of this machine alone."""

    audit: str = setting("The audit's folder or URL: its state, and tables of Parquet.", metavar="PATH")


@dataclass(frozen=True, kw_only=True)
class TableSettings(OutputSettings):
    """The table that was loaded, where there is one."""

    output: str = setting(
        "The table that topics are loaded into: a folder or URL, or a table's name for Iceberg.",
        default="",
        metavar="PATH",
    )


@contextmanager
def open_folder(settings: AuditSettings, console: Console) -> Iterator[AuditFolder]:
    """The audit's folder, with a Spark session only where its store needs one."""
    from odradek_pipeline.collecting.tables import AuditFolder
    from odradek_pipeline.commands.work import spark_session
    from odradek_pipeline.outputs.parquet.store import LocalStore, is_local, local_path, open_store

    if is_local(settings.audit):
        yield AuditFolder(LocalStore(local_path(settings.audit)), settings.audit)
        return
    with spark_session("parquet", settings, console) as spark:
        yield AuditFolder(open_store(spark, settings.audit), settings.audit)


def shown_time(milliseconds: int) -> str | None:
    """A time in UTC for people; None for none."""
    if milliseconds < 0:
        return None
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def watermark_row(topic: str, tier: str, mark: Any) -> dict[str, Any]:
    """A watermark as a row of a summary."""
    return {
        "topic": topic,
        "tier": tier,
        "complete_until": shown_time(mark.complete_until_ms),
        "version": mark.version,
        "blocked_by": mark.blocked_by,
    }
