"""The subcommands by name. A new one is one row here."""

from __future__ import annotations

from odradek_pipeline.audit.commands import settings as audit
from odradek_pipeline.dead_letters.commands import settings as letters
from odradek_pipeline.loading import settings as loading
from odradek_pipeline.work.command import Command

COMMANDS: dict[str, Command] = {
    one.name: one
    for one in (
        Command(
            "load",
            "Load a topic's records into a table, from where the table ends.",
            loading.LoadSettings,
            "loading.load",
        ),
        Command(
            "replay",
            "Read ranges again and replace exactly their rows.",
            loading.ReplaySettings,
            "loading.replay",
        ),
        Command(
            "stream",
            "Load a topic's records into a table batch by batch, until it is stopped.",
            loading.StreamSettings,
            "loading.stream",
        ),
        Command(
            "snapshot",
            "Keep the last value of each key of a topic in a table.",
            loading.SnapshotSettings,
            "loading.snapshot",
        ),
        Command("runs", "Show the runs of a table, newest first.", loading.RunsSettings, "loading.runs"),
        Command(
            "page", "Show the runs of a table as one HTML file.", loading.PageSettings, "loading.page.command"
        ),
        Command(
            "vacuum",
            "Remove files that are no part of a Parquet table.",
            loading.VacuumSettings,
            "loading.vacuum",
        ),
        Command(
            "audit collect",
            "Compare what was produced with each later tier, by window.",
            audit.CollectSettings,
            "audit.commands.collect",
        ),
        Command(
            "audit verdicts",
            "Show the verdicts of the last collection.",
            audit.VerdictsSettings,
            "audit.commands.verdicts",
        ),
        Command(
            "audit wait",
            "Wait until a topic is complete up to a time.",
            audit.WaitSettings,
            "audit.commands.wait",
        ),
        Command(
            "audit waive",
            "Accept windows as they are, or a session as ended.",
            audit.WaiveSettings,
            "audit.commands.waive",
        ),
        Command(
            "audit tiles",
            "Compare a table with the log by offsets, and name what nothing explains.",
            audit.TilesSettings,
            "audit.commands.tiles",
        ),
        Command(
            "dead-letters list",
            "Show dead letters: where they are from, and why they are here.",
            letters.ListSettings,
            "dead_letters.commands.listing",
        ),
        Command(
            "dead-letters return",
            "Send dead letters back to their topics, each once.",
            letters.ReturnSettings,
            "dead_letters.commands.returning",
        ),
        Command(
            "dead-letters retry",
            "Decode dead letters again, into the table that they belong to.",
            letters.RetrySettings,
            "dead_letters.commands.retry",
        ),
    )
}

GROUPS: dict[str, str] = {
    "audit": "Prove that nothing is missing or doubled.",
    "dead-letters": "What could not be read: see it, send it back, or decode it again.",
}
"""The first words of commands that have two."""
