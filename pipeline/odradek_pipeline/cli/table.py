"""The subcommands by name. A new one is one row here."""

from __future__ import annotations

from odradek_pipeline.commands import load, page, replay, runs, snapshot, stream, vacuum
from odradek_pipeline.commands.audit import collect, tiles, verdicts, wait, waive
from odradek_pipeline.commands.command import Command
from odradek_pipeline.commands.dead_letters import listing, retrying, returning

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
