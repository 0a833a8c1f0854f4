"""The subcommands by name. A new one is one row here."""

from __future__ import annotations

from odradek_pipeline.audit.commands import settings as audit
from odradek_pipeline.dead_letters.commands import settings as letters
from odradek_pipeline.loading import settings as loading
from odradek_pipeline.work.command import Command

COMMANDS: dict[str, Command] = {
    one.name: one
    for one in (
        Command("load", loading.LoadSettings, "loading.load"),
        Command("replay", loading.ReplaySettings, "loading.replay"),
        Command("stream", loading.StreamSettings, "loading.stream"),
        Command("snapshot", loading.SnapshotSettings, "loading.snapshot"),
        Command("runs", loading.RunsSettings, "loading.runs"),
        Command("page", loading.PageSettings, "loading.page.command"),
        Command("vacuum", loading.VacuumSettings, "loading.vacuum"),
        Command("audit collect", audit.CollectSettings, "audit.commands.collect"),
        Command("audit verdicts", audit.VerdictsSettings, "audit.commands.verdicts"),
        Command("audit wait", audit.WaitSettings, "audit.commands.wait"),
        Command("audit waive", audit.WaiveSettings, "audit.commands.waive"),
        Command("audit tiles", audit.TilesSettings, "audit.commands.tiles"),
        Command("dead-letters list", letters.ListSettings, "dead_letters.commands.listing"),
        Command("dead-letters return", letters.ReturnSettings, "dead_letters.commands.returning"),
        Command("dead-letters retry", letters.RetrySettings, "dead_letters.commands.retry"),
    )
}

GROUPS: dict[str, str] = {
    "audit": "Prove that nothing is missing or doubled.",
    "dead-letters": "What could not be read: see it, send it back, or decode it again.",
}
"""The first words of commands that have two."""
