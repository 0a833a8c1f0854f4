"""The subcommands by name. A new one is one row here."""

from __future__ import annotations

from odradek_pipeline.commands import load, replay, runs, snapshot, stream, vacuum
from odradek_pipeline.commands.audit import collect, verdicts, wait, waive
from odradek_pipeline.commands.command import Command

COMMANDS: dict[str, Command] = {
    one.name: one
    for one in (load.COMMAND, replay.COMMAND, stream.COMMAND, snapshot.COMMAND, runs.COMMAND, vacuum.COMMAND)
}

AUDIT = (collect.COMMAND, verdicts.COMMAND, wait.COMMAND, waive.COMMAND)
COMMANDS |= {one.name: one for one in AUDIT}

GROUPS: dict[str, str] = {"audit": "Prove that nothing is missing or doubled."}
"""The first words of commands that have two."""
