"""Runs `odradek quotas`: asks for quotas, changes them, and prints them."""

from __future__ import annotations

from collections.abc import Mapping

import click

from odradek.cli.cluster.quotas import KEYS
from odradek.cli.shared.options import CommandSession, parse_assignments
from odradek.cli.shared.output import say, show
from odradek.client.admin.quotas import QuotaAdmin, QuotaEntry
from odradek.foundation.client_entities import DEFAULT, ClientEntity
from odradek.foundation.words import nearest_name

DEFAULT_NAME = "default"


def _entity(given: Mapping[str, str | bool | None]) -> ClientEntity:
    names: list[str | None] = []
    for part in ("user", "client_id", "ip"):
        name, is_default = given[part], given[f"default_{part}"]
        option = part.replace("_", "-")
        if name is not None and is_default:
            raise click.UsageError(f"--{option} and --default-{option} exclude each other; give one of them")
        if name == "":
            raise click.UsageError(
                f"--{option} is empty; use --default-{option} for all without an own quota"
            )
        names.append(DEFAULT if is_default else None if name is None else str(name))
    return ClientEntity(*names)


def _require_entity(given: Mapping[str, str | bool | None]) -> ClientEntity:
    entity = _entity(given)
    if not any(name is not None for name in entity):
        raise click.UsageError(
            "name whose quotas: --user, --client-id, both, --ip, or --default-user and its like"
        )
    return entity


def list_quotas(session: CommandSession, *, exact: bool, **given: str | bool | None) -> None:
    entries = _describe_entity(session, _entity(given), is_strict=exact)
    show(
        session.output,
        headers=("USER", "CLIENT ID", "IP", "QUOTA", "VALUE"),
        rows=[
            (*(_format_name(name) for name in entry.entity), key, f"{value:.12g}")
            for entry in entries
            for key, value in sorted(entry.values.items())
        ],
        document=[{**_parts(entry.entity), "quotas": dict(entry.values)} for entry in entries],
        empty="no quota is set",
    )


def _format_name(name: str | None) -> str:
    """A default is in brackets, so that a user of that name differs."""
    return "-" if name is None else name or f"<{DEFAULT_NAME}>"


def _parts(entity: ClientEntity) -> dict[str, object]:
    """The parts for programs; null is a default."""
    return {
        part: name or None
        for part, name in zip(("user", "client_id", "ip"), entity, strict=True)
        if name is not None
    }


def set_quotas(
    session: CommandSession, *, assignments: tuple[str, ...], validate_only: bool, **given: str | bool | None
) -> None:
    entity = _require_entity(given)
    values: dict[str, float | None] = {}
    for key, text in parse_assignments(assignments, option="QUOTA=VALUE").items():
        _check_key(key)
        try:
            values[key] = float(text)
        except ValueError:
            raise click.UsageError(f"{key}={text}: the value of a quota is a number") from None
    _alter(session, entity, values, done="set", validate_only=validate_only)


def remove_quotas(
    session: CommandSession, *, keys: tuple[str, ...], validate_only: bool, **given: str | bool | None
) -> None:
    entity = _require_entity(given)
    for key in keys:
        _check_key(key)
    entries = [] if keys else _describe_entity(session, entity, is_strict=True)
    wanted = list(keys) or sorted(key for entry in entries for key in entry.values)
    _alter(session, entity, dict.fromkeys(wanted), done="removed", validate_only=validate_only)


def _check_key(key: str) -> None:
    """Raises click.UsageError for a quota that there is not."""
    if key in KEYS:
        return
    nearest = nearest_name(key, KEYS)
    hint = f"did you mean {nearest!r}?" if nearest else f"the quotas are {', '.join(KEYS)}"
    raise click.UsageError(f"there is no quota {key!r}; {hint}")


def _describe_entity(session: CommandSession, entity: ClientEntity, *, is_strict: bool) -> list[QuotaEntry]:
    return session.run(lambda client: QuotaAdmin(client).describe(entity, is_strict=is_strict))


def _alter(
    session: CommandSession,
    entity: ClientEntity,
    values: Mapping[str, float | None],
    *,
    done: str,
    validate_only: bool,
) -> None:
    """Alter quotas, or only check them, and print which ones."""
    session.run(lambda client: QuotaAdmin(client).alter(entity, values, validate_only=validate_only))
    verb = "valid" if validate_only else done
    document = {**_parts(entity), "result": verb, "quotas": list(values)}
    say(session.output, f"{verb}  {entity}: {', '.join(values) or 'no quotas'}", document)
