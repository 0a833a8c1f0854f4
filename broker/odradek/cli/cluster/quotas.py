"""`odradek quotas`: list, set and remove the quotas of users, client ids and addresses."""

from __future__ import annotations

import click

from odradek.cli.shared.completers import assignments_of, one_of
from odradek.cli.shared.options import combine_decorators, session_options
from odradek.foundation.verb_groups import VerbGroup, run_in

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


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


@quotas.command("list")
@entity_options
@click.option("--exact", is_flag=True, help="Leave out entries with further parts, as a user's client id.")
@session_options
@run_in("odradek.cli.cluster.quotas_run")
def list_quotas() -> None:
    """List quotas: all, or those of a user, client id or address.

    \b
    Examples:
      odradek quotas list
      odradek quotas list --user alice
      odradek quotas list --default-client-id --exact
    """


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
@run_in("odradek.cli.cluster.quotas_run")
def set_quotas() -> None:
    """Set quotas of a user, a client id or an address, all or none of them.

    \b
    Examples:
      odradek quotas set --user alice producer_byte_rate=2000000 consumer_byte_rate=4000000
      odradek quotas set --default-client-id request_percentage=50
      odradek quotas set --ip 192.0.2.7 connection_creation_rate=20
    """


@quotas.command("remove")
@click.argument("keys", nargs=-1, metavar="[QUOTA…]", shell_complete=one_of(KEYS))
@entity_options
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@session_options
@run_in("odradek.cli.cluster.quotas_run")
def remove_quotas() -> None:
    """Remove quotas of a user, a client id or an address: those named, or all.

    \b
    Examples:
      odradek quotas remove --user alice producer_byte_rate
      odradek quotas remove --default-client-id
    """
