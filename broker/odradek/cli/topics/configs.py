"""`odradek configs`: describe, set, unset for topics, brokers and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.shared.completers import (
    complete_config_assignments,
    complete_config_keys,
    complete_config_names,
)
from odradek.cli.shared.options import CommandSession, parse_assignments, session_options
from odradek.cli.shared.output import plain, say, show, warn
from odradek.foundation.verb_groups import VerbGroup

if TYPE_CHECKING:
    from odradek.client.admin.results import ConfigChange, ConfigEntry, ResourceType

KINDS = ("topic", "broker", "group")
DEFAULT_NAME = "default"


@click.group(cls=VerbGroup)
def configs() -> None:
    """Describe and change the settings of topics, brokers and groups.

    For `broker` the name is the broker's id, or `default` for the common default of all brokers.
    """


@configs.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=complete_config_names)
@click.argument("keys", nargs=-1, metavar="[KEY…]", shell_complete=complete_config_keys)
@click.option("--all", "show_all", is_flag=True, help="Show defaults too; implied by keys.")
@click.option("--docs", "with_docs", is_flag=True, help="Show what each setting means.")
@session_options
def describe(
    session: CommandSession, *, kind: str, name: str, keys: tuple[str, ...], show_all: bool, with_docs: bool
) -> None:
    """Show settings and where their values come from (only those that were set, unless asked).

    \b
    Examples:
      odradek configs describe topic orders
      odradek configs describe topic orders retention.ms segment.bytes
      odradek configs describe broker 1 --all --docs
    """
    from odradek.client.admin.configs import ConfigAdmin

    found = session.run(
        lambda client: ConfigAdmin(client).describe(
            *_resource(kind, name), keys=keys or None, include_synonyms=True, include_documentation=with_docs
        )
    )
    entries = [entry for entry in found if show_all or keys or not entry.is_default]
    headers = ["KEY", "VALUE", "SOURCE"] + (["MEANING"] if with_docs else [])
    rows = [
        [
            entry.name,
            "(hidden)" if entry.is_sensitive else entry.value,
            entry.source.name.lower(),
            *([entry.documentation] if with_docs else []),
        ]
        for entry in entries
    ]
    show(
        session.output,
        headers=headers,
        rows=rows,
        document=[_document(entry) for entry in entries],
        empty=f"nothing is set for {kind} {name}; --all shows the defaults",
    )


def _document(entry: ConfigEntry) -> dict[str, object]:
    fields: dict[str, object] = plain(entry)
    fields["synonyms"] = [
        {"name": name, "value": value, "source": source.name.lower()}
        for name, value, source in entry.synonyms
    ]
    return fields


@configs.command("set")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=complete_config_names)
@click.argument(
    "assignments", nargs=-1, required=True, metavar="KEY=VALUE…", shell_complete=complete_config_assignments
)
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@session_options
def set_configs(
    session: CommandSession, *, kind: str, name: str, assignments: tuple[str, ...], validate_only: bool
) -> None:
    """Set settings, all or none of them.

    \b
    Examples:
      odradek configs set topic orders retention.ms=3600000 cleanup.policy=compact,delete
      odradek configs set broker default log.retention.ms=86400000
      odradek configs set group billing consumer.session.timeout.ms=60000
    """
    from odradek.client.admin.results import ConfigChange

    pairs = parse_assignments(assignments, option="KEY=VALUE")
    changes = [ConfigChange(key, value) for key, value in pairs.items()]
    _alter(session, kind, name, changes, done="set", validate_only=validate_only)


@configs.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=complete_config_names)
@click.argument("keys", nargs=-1, required=True, metavar="KEY…", shell_complete=complete_config_keys)
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@session_options
def unset(
    session: CommandSession, *, kind: str, name: str, keys: tuple[str, ...], validate_only: bool
) -> None:
    """Remove settings, so that their defaults apply again.

    \b
    Examples:
      odradek configs unset topic orders retention.ms
    """
    from odradek.client.admin.results import AlterOperation, ConfigChange

    changes = [ConfigChange(key, None, AlterOperation.DELETE) for key in keys]
    _alter(session, kind, name, changes, done="unset", validate_only=validate_only)


def _alter(
    session: CommandSession,
    kind: str,
    name: str,
    changes: list[ConfigChange],
    *,
    done: str,
    validate_only: bool,
) -> None:
    """Make the changes, or only check them, and print the keys."""
    from odradek.client.admin.configs import ConfigAdmin

    warning = session.run(
        lambda client: ConfigAdmin(client).alter(*_resource(kind, name), changes, validate_only=validate_only)
    )
    warn(warning, about=f"{kind} {name}")
    verb, keys = "valid" if validate_only else done, [one.name for one in changes]
    document = {"kind": kind, "name": name, "result": verb, "keys": keys}
    say(session.output, f"{verb}  {kind} {name}: {', '.join(keys)}", document)


def _resource(kind: str, name: str) -> tuple[ResourceType, str]:
    from odradek.client.admin.results import ResourceType

    return ResourceType[kind.upper()], "" if kind == "broker" and name == DEFAULT_NAME else name
