"""The options of `odradek acls`, in the words of kafka-acls.sh. `acl_choices` has what they stand for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from odradek.cli.shared.options import Decorator, combine_decorators


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
