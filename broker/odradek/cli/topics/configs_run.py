"""Runs `odradek configs`: asks for settings, changes them, and prints them."""

from __future__ import annotations

import click

from odradek.cli.shared.options import CommandSession, parse_assignments
from odradek.cli.shared.output import plain, say, show, warn
from odradek.cli.topics.known_keys import require_known_keys
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.client import Client
from odradek.client.results import AlterOperation, ConfigChange, ConfigEntry, ResourceType

DEFAULT_NAME = "default"


def list_configs(session: CommandSession, *, kind: str) -> None:
    names = session.run(lambda client: ConfigAdmin(client).list_names(_resource_type(kind)))
    show(
        session.output,
        headers=["NAME"],
        rows=[[name] for name in names],
        document=names,
        empty=f"no {kind} has settings",
    )


def describe(
    session: CommandSession, *, kind: str, name: str, keys: tuple[str, ...], show_all: bool, with_docs: bool
) -> None:
    resource = _resource(kind, name)
    found = session.run(
        lambda client: ConfigAdmin(client).describe(
            *resource, keys=keys or None, include_synonyms=True, include_documentation=with_docs
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


def set_configs(
    session: CommandSession, *, kind: str, name: str, assignments: tuple[str, ...], validate_only: bool
) -> None:
    pairs = parse_assignments(assignments, option="KEY=VALUE")
    changes = [ConfigChange(key, value) for key, value in pairs.items()]
    _alter(session, kind, name, changes, done="set", validate_only=validate_only)


def unset(
    session: CommandSession, *, kind: str, name: str, keys: tuple[str, ...], validate_only: bool
) -> None:
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
    resource = _resource(kind, name)

    async def work(client: Client) -> str | None:
        unset = [one.name for one in changes if one.operation is AlterOperation.DELETE]
        if unset:
            await require_known_keys(client, *resource, unset)
        return await ConfigAdmin(client).alter(*resource, changes, validate_only=validate_only)

    warning = session.run(work)
    warn(warning, about=f"{kind} {name}")
    verb, keys = "valid" if validate_only else done, [one.name for one in changes]
    document = {"kind": kind, "name": name, "result": verb, "keys": keys}
    say(session.output, f"{verb}  {kind} {name}: {', '.join(keys)}", document)


def _resource_type(kind: str) -> ResourceType:
    return ResourceType[kind.upper().replace("-", "_")]


def _resource(kind: str, name: str) -> tuple[ResourceType, str]:
    if kind == "broker" and name != DEFAULT_NAME and not name.isdigit():
        raise click.UsageError(
            f"{name!r} is not the id of a broker: give its number, which `odradek brokers list` shows, or "
            f"{DEFAULT_NAME!r} for the common default of all brokers"
        )
    return _resource_type(kind), "" if kind == "broker" and name == DEFAULT_NAME else name
