"""The subcommands by name. A new one is one row here."""

from __future__ import annotations

from odradek_pipeline.audit.commands import collect, tiles, verdicts, wait, waive
from odradek_pipeline.dead_letters.commands import listing, retrying, returning
from odradek_pipeline.loading import load, replay, runs, snapshot, stream, vacuum
from odradek_pipeline.loading.page import command as page
from odradek_pipeline.work.command import Command

COMMANDS: dict[str, Command] = {
    one.name: one
    for one in (
        load.COMMAND,
        replay.COMMAND,
        stream.COMMAND,
        snapshot.COMMAND,
        runs.COMMAND,
        page.COMMAND,
        vacuum.COMMAND,
    )
}

AUDIT = (collect.COMMAND, verdicts.COMMAND, wait.COMMAND, waive.COMMAND, tiles.COMMAND)
DEAD_LETTERS = (listing.COMMAND, returning.COMMAND, retrying.COMMAND)
COMMANDS |= {one.name: one for one in (*AUDIT, *DEAD_LETTERS)}

GROUPS: dict[str, str] = {
    "audit": "Prove that nothing is missing or doubled.",
    "dead-letters": "What could not be read: see it, send it back, or decode it again.",
}
"""The first words of commands that have two."""
