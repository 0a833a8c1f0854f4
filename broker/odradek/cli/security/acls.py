"""`odradek acls`: list, add, remove. `acl_options` has the options."""

from __future__ import annotations

import click

from odradek.cli.security.acl_options import entry_options, resource_options
from odradek.cli.shared.options import session_options
from odradek.foundation.verb_groups import VerbGroup, run_in


@click.group(cls=VerbGroup)
def acls() -> None:
    """List, add and remove access control lists: they decide what each principal may do."""


@acls.command("list")
@resource_options(("any", "literal", "prefixed", "match"))
@click.option("--principal", multiple=True, metavar="PRINCIPAL", help="Only ACLs for this principal.")
@session_options
@run_in("odradek.cli.security.acls_run")
def list_acls() -> None:
    """Show ACLs: all, or those of the resources and principals named.

    With --resource-pattern-type match, every ACL that is about the resource is shown.

    \b
    Examples:
      odradek acls list
      odradek acls list --topic orders --resource-pattern-type match
      odradek acls list --principal User:alice
    """


@acls.command()
@resource_options(("literal", "prefixed"))
@entry_options
@session_options
@run_in("odradek.cli.security.acls_run")
def add() -> None:
    """Add ACLs; those that are there already stay. A denial beats every allowance.

    \b
    Examples:
      odradek acls add --allow-principal User:alice --producer --topic orders
      odradek acls add --allow-principal User:bob --consumer --topic orders --group billing
      odradek acls add --allow-principal User:carol --operation read --topic eu- --resource-pattern-type prefixed
      odradek acls add --deny-principal User:* --deny-host 10.0.0.7 --topic '*'
    """


@acls.command()
@resource_options(("literal", "prefixed", "any", "match"))
@entry_options
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and change nothing.")
@session_options
@run_in("odradek.cli.security.acls_run")
def remove() -> None:
    """Remove ACLs, and show them. Without a principal, all ACLs of the resources named are removed.

    \b
    Examples:
      odradek acls remove --allow-principal User:alice --producer --topic orders
      odradek acls remove --topic orders --dry-run
    """
