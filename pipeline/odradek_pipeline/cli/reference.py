"""Writes docs/reference/pipeline.md from the declared settings and exit codes; a test compares the two.

Run `python -m odradek_pipeline.cli.reference > docs/reference/pipeline.md` after a change to a setting.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek_pipeline.cli.table import COMMANDS
from odradek_pipeline.errors import MEANINGS
from odradek_pipeline.settings.declared import CommandFlag, settings_of
from odradek_pipeline.work.metrics import METRICS


def render_reference() -> str:
    return "\n".join(_render_parts()) + "\n"


def _render_parts() -> Iterator[str]:
    yield "# odradek-pipeline\n"
    yield "Generated from the settings (`python -m odradek_pipeline.cli.reference`); a test compares the two.\n"
    yield "A setting is a flag, or a key of the YAML file that `--config` names, with underscores in place of dashes."
    yield "A key outside of a section counts for all commands that have it; a section has a command's name. A flag wins"
    yield "over its section, and a section over a key outside.\n"
    for name, command in COMMANDS.items():
        yield f"## odradek-pipeline {name}\n"
        yield f"{command.help}\n"
        yield "| flag | default | meaning |\n| --- | --- | --- |"
        yield from (_render_row(one) for one in settings_of(command.settings).values())
        yield "| `--config` |  | A YAML file of settings; flags win. |"
        yield "| `--verbose` | off | Show the trace of an error. |\n"
    yield "## Metrics\n"
    yield "`--metrics-port` serves them, and `--metrics-file` has them at the end.\n"
    yield "| metric | kind | labels | meaning |\n| --- | --- | --- | --- |"
    for one in METRICS:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"| `{one.shown_name}` | {one.kind} | {labels} | {one.meaning} |"
    yield ""
    yield "## Exit codes\n"
    yield "| code | meaning |\n| --- | --- |"
    yield from (f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items())


def _render_row(one: CommandFlag) -> str:
    values = " or ".join(f"`{choice}`" for choice in one.choices)
    meaning = f"{one.setting.doc} One of {values}." if values else one.setting.doc
    default = "required" if one.is_required else one.shown_default
    return f"| `{one.flag}` | {default} | {meaning.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    print(render_reference(), end="")
