"""`odradek users`: the users of SCRAM and their passwords, in a running cluster or before its first start.

A password comes from a file, the environment, or a prompt. It is never an argument, which other users could see.
"""

from __future__ import annotations

import click

from odradek.cli.shared.completers import one_of
from odradek.cli.shared.options import Decorator, combine_decorators, session_options
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import VerbGroup, run_in

# Without either option the password is asked for.
password_options = combine_decorators(
    click.option(
        "--password-file",
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="Take the password from this file, without its last line end; - is standard input.",
    ),
    click.option(
        "--password-variable", metavar="NAME", help="Take the password from this environment variable."
    ),
)

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISM_DEFAULT = "SCRAM-SHA-512"
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16_384


@click.group(cls=VerbGroup)
def users() -> None:
    """List users of SCRAM, set and delete their passwords.

    A password is asked for at the terminal, or read from a file or an environment variable. No broker ever sees it. A
    changed password holds from the next login on.
    """


def _mechanism_option(help: str) -> Decorator:
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice(MECHANISMS),
        shell_complete=one_of(MECHANISMS),
        help=help,
    )


# The user, the mechanisms and the source of the password.
_password_of_user = combine_decorators(
    click.argument("name", metavar="USER"),
    _mechanism_option(f"The mechanism; may be repeated. Default: {MECHANISM_DEFAULT}."),
    click.option(
        "--iterations",
        type=WholeNumber(ITERATIONS_MIN, ITERATIONS_MAX),
        default=ITERATIONS_MIN,
        show_default=True,
        help="How much work a guess costs a thief of the registry, and a login its client.",
    ),
    password_options,
)


@users.command("list")
@session_options
@run_in("odradek.cli.security.users_run")
def list_users() -> None:
    """List the users that have passwords.

    \b
    Examples:
      odradek users list
    """


@users.command()
@click.argument("names", nargs=-1, required=True, metavar="USER…")
@session_options
@run_in("odradek.cli.security.users_run")
def describe() -> None:
    """Show for which mechanisms users have passwords. The passwords themselves are not kept.

    \b
    Examples:
      odradek users describe alice bob
    """


@users.command("set")
@_password_of_user
@session_options
@run_in("odradek.cli.security.users_run")
def set_password() -> None:
    """Set the password of a user, new or known.

    \b
    Examples:
      odradek users set alice
      odradek users set alice --password-file alice.password --mechanism SCRAM-SHA-256
    """


@users.command()
@click.argument("name", metavar="USER")
@_mechanism_option("Only the password of this mechanism; may be repeated.")
@session_options
@run_in("odradek.cli.security.users_run")
def delete() -> None:
    """Delete the passwords of a user: no login is possible any more. Connections that are open stay.

    \b
    Examples:
      odradek users delete alice
      odradek users delete alice --mechanism SCRAM-SHA-256
    """


@users.command()
@_password_of_user
@click.option("--data", metavar="DIR", help="The data directory of the node that `odradek start` will run.")
@click.option(
    "--zookeeper",
    metavar="CONNECT",
    help="The ensemble and the cluster's root node, as zk1:2181,zk2:2181/odradek.",
)
@click.option(
    "--config",
    metavar="FILE",
    help="The server.properties of the node or of a broker, which names one of the two.",
)
@click.option(
    "--unprotected",
    is_flag=True,
    help="Leave the keys of the user open to every client of ZooKeeper, where the network alone protects it.",
)
@session_options
@run_in("odradek.cli.security.first_user")
def bootstrap() -> None:
    """Write the first user into the registry, before any broker runs.

    Brokers that log in to each other with SCRAM need this user. The registry is one of a single node (--data), or
    ZooKeeper. There the user's keys belong to zookeeper.digest.user of --config, with zookeeper.set.acl=true.

    \b
    Examples:
      odradek users bootstrap admin --data ./data
      odradek users bootstrap admin --config broker.properties --password-file admin.password
    """
