"""`odradek acls`: list, add, remove. `acl_choices` has the options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.security.acl_choices import AclChoice, entry_options, option_word, resource_options
from odradek.cli.shared.options import CommandSession, session_options
from odradek.cli.shared.output import print_errors, show
from odradek.foundation.verb_groups import VerbGroup

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek.foundation.errors import OdradekError
    from odradek.security.authorization.acls import AclBinding
    from odradek.security.authorization.filters import AclFilter


@click.group(cls=VerbGroup)
def acls() -> None:
    """List, add and remove access control lists: they decide what each principal may do."""


@acls.command("list")
@resource_options(("any", "literal", "prefixed", "match"))
@click.option("--principal", multiple=True, metavar="PRINCIPAL", help="Only ACLs for this principal.")
@session_options
def list_acls(session: CommandSession, *, choice: AclChoice, principal: tuple[str, ...]) -> None:
    """Show ACLs: all, or those of the resources and principals named.

    With --resource-pattern-type match, every ACL that is about the resource is shown.

    \b
    Examples:
      odradek acls list
      odradek acls list --topic orders --resource-pattern-type match
      odradek acls list --principal User:alice
    """
    from odradek.security.authorization.filters import AclFilter

    patterns = choice.patterns()
    filters = [AclFilter(one.type, one.name, one.pattern_type) for one in patterns] or [AclFilter()]
    if principal:
        filters = [one._replace(principal=name) for one in filters for name in principal]

    found = session.run(lambda client: _matching(client, filters))
    _show(session, sorted({binding for some in found for binding in some}))


@acls.command()
@resource_options(("literal", "prefixed"))
@entry_options
@session_options
def add(session: CommandSession, *, choice: AclChoice) -> int:
    """Add ACLs; those that are there already stay. A denial beats every allowance.

    \b
    Examples:
      odradek acls add --allow-principal User:alice --producer --topic orders
      odradek acls add --allow-principal User:bob --consumer --topic orders --group billing
      odradek acls add --allow-principal User:carol --operation read --topic eu- --resource-pattern-type prefixed
      odradek acls add --deny-principal User:* --deny-host 10.0.0.7 --topic '*'
    """
    from odradek.client.admin.acls import AclAdmin

    bindings = choice.bindings()
    failures = session.run(lambda client: AclAdmin(client).create(bindings))
    _show(session, [one for one, failure in zip(bindings, failures, strict=True) if failure is None])
    return _report_failures(failures)


@acls.command()
@resource_options(("literal", "prefixed", "any", "match"))
@entry_options
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and change nothing.")
@session_options
def remove(session: CommandSession, *, choice: AclChoice, dry_run: bool) -> int:
    """Remove ACLs, and show them. Without a principal, all ACLs of the resources named are removed.

    \b
    Examples:
      odradek acls remove --allow-principal User:alice --producer --topic orders
      odradek acls remove --topic orders --dry-run
    """
    filters = choice.filters()

    async def work(client: Client) -> Sequence[list[AclBinding] | OdradekError]:
        from odradek.client.admin.acls import AclAdmin

        return await _matching(client, filters) if dry_run else await AclAdmin(client).delete(filters)

    found = session.run(work)
    _show(
        session, sorted({one for outcome in found if not isinstance(outcome, Exception) for one in outcome})
    )
    return _report_failures([one for one in found if isinstance(one, Exception)])


async def _matching(client: Client, filters: list[AclFilter]) -> list[list[AclBinding]]:
    from odradek.client.admin.acls import AclAdmin

    admin = AclAdmin(client)
    return [await admin.list(one) for one in filters]


def _report_failures(failures: Sequence[Exception | None]) -> int:
    """The exit code, after the failures were printed."""
    found = [failure for failure in failures if failure is not None]
    print_errors(found)
    return int(exit_code_for(found[0]) if found else ExitCode.OK)


def _show(session: CommandSession, found: list[AclBinding]) -> None:
    rows = [
        (
            option_word(pattern.type.name),
            pattern.name,
            option_word(pattern.pattern_type.name),
            entry.principal,
            entry.host,
            option_word(entry.operation.name),
            option_word(entry.permission.name),
        )
        for pattern, entry in found
    ]
    headers = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
    fields = ("resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")
    document = [dict(zip(fields, row, strict=True)) for row in rows]
    show(session.output, headers=headers, rows=rows, document=document, empty="no ACL")
