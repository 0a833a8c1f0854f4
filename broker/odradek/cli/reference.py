"""Writes docs/reference/cli.md from the commands themselves; a test compares the two.

Run `python -m odradek.cli.reference > docs/reference/cli.md` after a change to a verb.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from odradek.cli.exit_codes import MEANINGS, ExitCode
from odradek.cli.main import command_line
from odradek.cli.shared.connection_settings import PRECEDENCE
from odradek.client.properties import CLIENT_PROPERTIES, SCHEMA_REGISTRY_PROPERTIES

_SHARED = ("bootstrap", "profile", "command_config", "output", "timeout", "verbose", "color")


def reference() -> str:
    """The whole page."""
    parts = [
        "# Command line\n",
        "Generated from the commands (`python -m odradek.cli.reference`); a test compares the two.\n",
        _text(command_line.help or ""),
        "## Options of every verb\n",
        _options(command_line, shared=True),
        "`odradek help options` prints them. `dump-log` needs no broker and takes only `--output` and `--verbose` of\n"
        "these, `stop` and `running` only `--output`; `start`, `broker`, `controller`, `cluster` and `help` none.\n",
        "## Client properties\n",
        "The keys of a `--command-config` file (Kafka's `client.properties`) and of a profile. Every other key is a\n"
        "warning, except for those of security (`security.protocol`, `sasl.*`, `ssl.*`), which\n"
        f"[security.md](../security.md) describes. The first of these wins: {PRECEDENCE}.\n",
        "| property | default | meaning |\n| --- | --- | --- |",
        "\n".join(
            f"| `{one.key}` | {one.default_text or ''} | {one.doc} |"
            for one in (*CLIENT_PROPERTIES.values(), *SCHEMA_REGISTRY_PROPERTIES.values())
        )
        + "\n",
        "## Exit codes\n",
        "| code | meaning |\n| --- | --- |",
        "\n".join(_meaning_row(code) for code in MEANINGS) + "\n",
        "`odradek start`, `broker` and `controller` end with 0 after a controlled stop and with 1 when they cannot\n"
        "start. They end with 2 for wrong settings, and with 130 when a second signal ends them during the stop.\n",
    ]
    for words, command in _verbs(command_line, ()):
        parts.append(f"## odradek {' '.join(words)}\n")
        parts.append(f"    odradek {' '.join(words)} {_arguments(command)}".rstrip() + "\n")
        parts.append(_text(command.help or ""))
        options = _options(command, shared=False)
        if options:
            parts.append(options)
    return "\n".join(parts)


def _meaning_row(code: ExitCode) -> str:
    meaning = MEANINGS[code].replace("|", "\\|")
    return f"| {int(code)} | {meaning} |"


def _verbs(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _verbs(command, (*path, name))
        else:
            yield (*path, name), command


def _text(help_text: str) -> str:
    """A help text as Markdown: a paragraph that click keeps as it is becomes a code block."""
    paragraphs = inspect.cleandoc(help_text).split("\n\n")
    shown: list[str] = []
    for paragraph in paragraphs:
        if not paragraph.startswith("\b"):
            shown.append(paragraph)
            continue
        title, _, lines = paragraph.removeprefix("\b\n").partition("\n")
        shown.append(f"{title}\n\n```\n{inspect.cleandoc(lines)}\n```")
    return "\n\n".join(shown) + "\n"


def _arguments(command: click.Command) -> str:
    words = ["[OPTIONS]"] if any(isinstance(p, click.Option) for p in command.params) else []
    context = click.Context(command)
    words += [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    return " ".join(words)


def _options(command: click.Command, *, shared: bool) -> str:
    context = click.Context(command)
    rows: list[str] = []
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or (parameter.name in _SHARED) is not shared:
            continue
        record = parameter.get_help_record(context)
        assert record is not None
        option, meaning = (" ".join(text.split()).replace("|", "\\|") for text in record)
        rows.append(f"| `{option}` | {meaning} |")
    return "| option | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n" if rows else ""


if __name__ == "__main__":
    print(reference(), end="")
