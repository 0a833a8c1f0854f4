"""The common part of `audit`'s subcommands: the folder, its state, and how times are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from odradek_pipeline.settings.declared import setting
from odradek_pipeline.work.command import Console, OutputSettings, SparkSettings

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek_pipeline.audit.collecting.letters import Letters
    from odradek_pipeline.audit.collecting.tables import AuditFolder

TIERS = ("stored", "loaded", "mirrored")


@dataclass(frozen=True, kw_only=True)
class AuditSettings(SparkSettings):
    """The location of the audit. Spark is started for folders that are not of this machine alone."""

    audit: str = setting("The audit's folder or URL: its state, and tables of Parquet.", metavar="PATH")


@dataclass(frozen=True, kw_only=True)
class TableSettings(OutputSettings):
    """The table that was loaded, where there is one."""

    output: str = setting(
        "The table that topics are loaded into: a folder or URL, or a table's name for Iceberg.",
        default="",
        metavar="PATH",
    )


@dataclass(frozen=True, kw_only=True)
class LetterTopicSettings:
    """The topics of dead letters."""

    dead_letter_topic: tuple[str, ...] = setting(
        "A topic of dead letters, whose records count as read. May be repeated. Without it: each topic with `.dlq` "
        "behind its name, where there is one.",
        default=(),
        metavar="NAME",
    )

    async def read_letters(self, client: Client, topics: Iterable[str]) -> Letters:
        """The dead letters of all these topics."""
        from odradek_pipeline.audit.collecting.letters import add_letters
        from odradek_pipeline.dead_letters.bad_records import DEAD_LETTER_SUFFIX

        names = list(self.dead_letter_topic)
        if not names:
            cluster = await client.with_retries(lambda: client.refresh(None))
            names = [
                name
                for name in sorted({one + DEAD_LETTER_SUFFIX for one in topics})
                if name in cluster.topics
            ]
        found: Letters = {}
        for name in names:
            await add_letters(client, name, found)
        return found


@contextmanager
def open_folder(location: str, settings: SparkSettings, console: Console) -> Iterator[AuditFolder]:
    """An audit's folder, with a Spark session only where its store needs one."""
    from odradek_pipeline.audit.collecting.tables import AuditFolder
    from odradek_pipeline.outputs.parquet.store import LocalStore, is_local, local_path, open_store
    from odradek_pipeline.work.worker import open_spark_session

    if is_local(location):
        yield AuditFolder(LocalStore(local_path(location)), location)
        return
    with open_spark_session("parquet", settings, console) as spark:
        yield AuditFolder(open_store(spark, location), location)


def format_time(milliseconds: int) -> str | None:
    """A time in UTC for people; None for none."""
    if milliseconds < 0:
        return None
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def watermark_row(topic: str, tier: str, mark: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "tier": tier,
        "complete_until": format_time(mark.complete_until_ms),
        "version": mark.version,
        "blocked_by": mark.blocked_by,
    }
