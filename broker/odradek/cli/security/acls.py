"""`odradek acls`: list, add, remove, with the options of kafka-acls.sh. `acl_choices` has what they stand for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from odradek.cli.shared.options import Decorator, combine_decorators, session_options
from odradek.foundation.verb_groups import VerbGroup, run_in


def resource_options(pattern_types: tuple[str, ...]) -> Decorator:
    """The options that name resources; the verb gets `choice`. The first of `pattern_types` is the default."""

    def add(function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def with_choice(*arguments: object, **options: Any) -> object:
            from odradek.cli.security.acl_choices import RESOURCE_OPTIONS, AclChoice

            names = {option: options.pop(option) for option in RESOURCE_OPTIONS}
            own = {
                field: options.pop(field)
                for field in AclChoice.__dataclass_fields__
                if field in options and field != "names"
            }
            return function(*arguments, choice=AclChoice(names=names, **own), **options)

        return combine_decorators(
            click.option("--topic", multiple=True, metavar="NAME", help="A topic; * is every one."),
            click.option("--group", multiple=True, metavar="NAME", help="A consumer group; * is every one."),
            click.option("--cluster", is_flag=True, help="The cluster itself."),
            click.option("--transactional-id", multiple=True, metavar="ID", help="A transactional id."),
            click.option("--delegation-token", multiple=True, metavar="ID", help="A delegation token."),
            click.option(
                "--user-principal", multiple=True, metavar="PRINCIPAL", help="A user whose tokens are meant."
            ),
            click.option(
                "--resource-pattern-type",
                "pattern_type",
                type=click.Choice(pattern_types),
                default=pattern_types[0],
                help="How the names are meant: as they are, or as prefixes.",
            ),
        )(with_choice)

    return add


# Kafka's operations, by their names on the command line; `acls.AclOperation` is not loaded for a help text.
OPERATIONS: Final = (
    *("all", "read", "write", "create", "delete", "alter", "describe", "cluster-action", "describe-configs"),
    *("alter-configs", "idempotent-write", "create-tokens", "describe-tokens", "two-phase-commit"),
)

# The options for principals, addresses and operations; below `resource_options`.
entry_options = combine_decorators(
    click.option(
        "--allow-principal", multiple=True, metavar="PRINCIPAL", help="As User:alice; User:* is all."
    ),
    click.option(
        "--deny-principal", multiple=True, metavar="PRINCIPAL", help="A denial beats every allowance."
    ),
    click.option("--allow-host", multiple=True, metavar="ADDRESS", help="From there only."),
    click.option("--deny-host", multiple=True, metavar="ADDRESS", help="Denied from there only."),
    click.option(
        "--operation",
        multiple=True,
        type=click.Choice(OPERATIONS, case_sensitive=False),
        help="What is done; all unless given.",
    ),
    click.option("--producer", is_flag=True, help="What producers need, of topics and transactional ids."),
    click.option("--consumer", is_flag=True, help="What consumers need, of topics and groups."),
    click.option("--idempotent", is_flag=True, help="IdempotentWrite on the cluster, for old producers."),
)


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
