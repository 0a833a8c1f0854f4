"""`odradek quotas`: list, set and remove the quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from odradek.cli.shared.completers import assignments_of, one_of
from odradek.cli.shared.options import CommandSession, combine_decorators, parse_assignments, session_options
from odradek.cli.shared.output import say, show
from odradek.foundation.verb_groups import VerbGroup
from odradek.foundation.words import nearest_name

if TYPE_CHECKING:
    from odradek.client.admin.quotas import QuotaEntry
    from odradek.foundation.client_entities import ClientEntity

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
DEFAULT_NAME = "default"


@click.group(cls=VerbGroup)
def quotas() -> None:
    """List and change the quotas of users, client ids and addresses.

    A quota holds on each broker by itself. Bytes and connections are per second, and a request percentage of 100 is all
    of a broker's time. Of several quotas for a client, that of its user and client id counts first, then its user's,
    then its client id's. Each may have a default, for those without an own one.
    """


# The options that name whose quotas.
entity_options = combine_decorators(
    click.option("--user", metavar="NAME", help="This user."),
    click.option("--default-user", is_flag=True, help="All users without a quota of their own."),
    click.option("--client-id", metavar="ID", help="This client id."),
    click.option("--default-client-id", is_flag=True, help="All client ids without a quota of their own."),
    click.option("--ip", metavar="ADDRESS", help="This address."),
    click.option("--default-ip", is_flag=True, help="All addresses without a quota of their own."),
)


def _entity(given: Mapping[str, str | bool | None]) -> ClientEntity:
    from odradek.foundation.client_entities import DEFAULT, ClientEntity

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


@quotas.command("list")
@entity_options
@click.option("--exact", is_flag=True, help="Leave out entries with further parts, as a user's client id.")
@session_options
def list_quotas(session: CommandSession, *, exact: bool, **given: str | bool | None) -> None:
    """List quotas: all, or those of a user, client id or address.

    \b
    Examples:
      odradek quotas list
      odradek quotas list --user alice
      odradek quotas list --default-client-id --exact
    """
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


@quotas.command("set")
@click.argument(
    "assignments",
    nargs=-1,
    required=True,
    metavar="QUOTA=VALUE…",
    shell_complete=assignments_of(one_of(KEYS)),
)
@entity_options
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@session_options
def set_quotas(
    session: CommandSession, *, assignments: tuple[str, ...], validate_only: bool, **given: str | bool | None
) -> None:
    """Set quotas of a user, a client id or an address, all or none of them.

    \b
    Examples:
      odradek quotas set --user alice producer_byte_rate=2000000 consumer_byte_rate=4000000
      odradek quotas set --default-client-id request_percentage=50
      odradek quotas set --ip 192.0.2.7 connection_creation_rate=20
    """
    entity = _require_entity(given)
    values: dict[str, float | None] = {}
    for key, text in parse_assignments(assignments, option="QUOTA=VALUE").items():
        _check_key(key)
        try:
            values[key] = float(text)
        except ValueError:
            raise click.UsageError(f"{key}={text}: the value of a quota is a number") from None
    _alter(session, entity, values, done="set", validate_only=validate_only)


@quotas.command("remove")
@click.argument("keys", nargs=-1, metavar="[QUOTA…]", shell_complete=one_of(KEYS))
@entity_options
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@session_options
def remove_quotas(
    session: CommandSession, *, keys: tuple[str, ...], validate_only: bool, **given: str | bool | None
) -> None:
    """Remove quotas of a user, a client id or an address: those named, or all.

    \b
    Examples:
      odradek quotas remove --user alice producer_byte_rate
      odradek quotas remove --default-client-id
    """
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
    from odradek.client.admin.quotas import QuotaAdmin

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
    from odradek.client.admin.quotas import QuotaAdmin

    session.run(lambda client: QuotaAdmin(client).alter(entity, values, validate_only=validate_only))
    verb = "valid" if validate_only else done
    document = {**_parts(entity), "result": verb, "quotas": list(values)}
    say(session.output, f"{verb}  {entity}: {', '.join(values) or 'no quotas'}", document)
