"""Runs `odradek acls`: finds, adds and removes ACLs, and prints them."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.security.acl_choices import AclChoice, option_word
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import print_errors, show
from odradek.client.admin.acls import AclAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek.security.authorization.acls import AclBinding
from odradek.security.authorization.filters import AclFilter


def list_acls(session: CommandSession, *, choice: AclChoice, principal: tuple[str, ...]) -> None:
    patterns = choice.patterns()
    filters = [AclFilter(one.type, one.name, one.pattern_type) for one in patterns] or [AclFilter()]
    if principal:
        filters = [one._replace(principal=name) for one in filters for name in principal]

    found = session.run(lambda client: _matching(client, filters))
    _show(session, sorted({binding for some in found for binding in some}))


def add(session: CommandSession, *, choice: AclChoice) -> int:
    bindings = choice.bindings()
    failures = session.run(lambda client: AclAdmin(client).create(bindings))
    _show(session, [one for one, failure in zip(bindings, failures, strict=True) if failure is None])
    return _report_failures(failures)


def remove(session: CommandSession, *, choice: AclChoice, dry_run: bool) -> int:
    filters = choice.filters()

    async def work(client: Client) -> Sequence[list[AclBinding] | OdradekError]:
        return await _matching(client, filters) if dry_run else await AclAdmin(client).delete(filters)

    found = session.run(work)
    _show(
        session, sorted({one for outcome in found if not isinstance(outcome, Exception) for one in outcome})
    )
    return _report_failures([one for one in found if isinstance(one, Exception)])


async def _matching(client: Client, filters: list[AclFilter]) -> list[list[AclBinding]]:
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
