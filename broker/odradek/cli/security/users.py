"""`odradek users`: the users of SCRAM and their passwords, in a running cluster or before its first start.

A password comes from a file, the environment, or a prompt. It is never an argument, which other users could see.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from odradek.cli.shared.completers import one_of
from odradek.cli.shared.options import CommandSession, Decorator, combine_decorators, session_options
from odradek.cli.shared.output import say, show
from odradek.foundation.errors import SettingError
from odradek.foundation.verb_groups import VerbGroup

if TYPE_CHECKING:
    from odradek.client.client import Client
    from odradek.foundation.errors import OdradekError

PASSWORD_BYTES_MAX: Final = 4096
_STANDARD_INPUT: Final = "-"


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


def read_password(user: str, *, password_file: str | None, password_variable: str | None) -> str:
    """The password for `user`. Raises SettingError for one that cannot be read, and UsageError without a source."""
    if password_file is not None and password_variable is not None:
        raise click.UsageError("--password-file and --password-variable exclude each other; give one of them")
    if password_file is not None:
        return _check_password(_file_text(password_file), f"--password-file {password_file}")
    if password_variable is not None:
        text = os.environ.get(password_variable)
        if text is None:
            raise SettingError(f"--password-variable {password_variable}: there is no such variable")
        return _check_password(text, f"--password-variable {password_variable}")
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to ask for the password; give --password-file or --password-variable"
        )
    prompted = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True)
    return _check_password(prompted, "the password")


def _file_text(path: str) -> str:
    try:
        if path == _STANDARD_INPUT:
            data = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(PASSWORD_BYTES_MAX + 1)
        return data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as failure:
        raise SettingError(f"--password-file {path}: {failure.strerror}") from failure
    except UnicodeDecodeError:
        # The error of the codec would show a part of the password.
        raise SettingError(f"--password-file {path}: it is not UTF-8 text") from None


def _check_password(text: str, source: str) -> str:
    if not text:
        raise SettingError(f"{source}: the password is empty")
    if len(text.encode()) > PASSWORD_BYTES_MAX:
        raise SettingError(f"{source}: the password is longer than {PASSWORD_BYTES_MAX} bytes")
    return text


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
        type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
        default=ITERATIONS_MIN,
        show_default=True,
        help="How much work a guess costs a thief of the registry, and a login its client.",
    ),
    password_options,
)


@users.command("list")
@session_options
def list_users(session: CommandSession) -> None:
    """List the users that have passwords.

    \b
    Examples:
      odradek users list
    """
    _show(session, ())


@users.command()
@click.argument("names", nargs=-1, required=True, metavar="USER…")
@session_options
def describe(session: CommandSession, *, names: tuple[str, ...]) -> None:
    """Show for which mechanisms users have passwords. The passwords themselves are not kept.

    \b
    Examples:
      odradek users describe alice bob
    """
    _show(session, names)


def _show(session: CommandSession, names: tuple[str, ...]) -> None:
    found = sorted(session.run(lambda client: _describe_users(client, names)).items())
    show(
        session.output,
        headers=("USER", "MECHANISM", "ITERATIONS"),
        rows=[(user, name, count) for user, iterations in found for name, count in iterations.items()],
        document=[
            {
                "user": user,
                "credentials": [
                    {"mechanism": name, "iterations": count} for name, count in iterations.items()
                ],
            }
            for user, iterations in found
        ],
        empty="no user has a password of SCRAM",
    )


@users.command("set")
@_password_of_user
@session_options
def set_password(
    session: CommandSession, *, name: str, mechanisms: tuple[str, ...], iterations: int, **source: str | None
) -> None:
    """Set the password of a user, new or known.

    \b
    Examples:
      odradek users set alice
      odradek users set alice --password-file alice.password --mechanism SCRAM-SHA-256
    """
    from odradek.security.authentication.scram import check_user_name

    check_user_name(name)
    wanted = mechanisms or (MECHANISM_DEFAULT,)
    password = read_password(name, **source)

    async def work(client: Client) -> None:
        from odradek.client.admin.scram import ScramAdmin, ScramPassword

        # A request may name a user once only.
        for mechanism in wanted:
            one = ScramPassword(name, mechanism, password, iterations)
            _raise_first(await ScramAdmin(client).alter(passwords=[one]))

    session.run(work)
    _say_done(session, name, "set", wanted)


@users.command()
@click.argument("name", metavar="USER")
@_mechanism_option("Only the password of this mechanism; may be repeated.")
@session_options
def delete(session: CommandSession, *, name: str, mechanisms: tuple[str, ...]) -> None:
    """Delete the passwords of a user: no login is possible any more. Connections that are open stay.

    \b
    Examples:
      odradek users delete alice
      odradek users delete alice --mechanism SCRAM-SHA-256
    """

    async def work(client: Client) -> tuple[str, ...]:
        from odradek.client.admin.scram import ScramAdmin, ScramRemoval

        wanted = mechanisms or tuple((await _describe_users(client, [name]))[name])
        for mechanism in wanted:
            _raise_first(await ScramAdmin(client).alter(removals=[ScramRemoval(name, mechanism)]))
        return wanted

    _say_done(session, name, "deleted", session.run(work))


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
def bootstrap(
    session: CommandSession,
    *,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    data: str | None,
    zookeeper: str | None,
    config: str | None,
    unprotected: bool,
    **source: str | None,
) -> None:
    """Write the first user into the registry, before any broker runs.

    Brokers that log in to each other with SCRAM need this user. The registry is one of a single node (--data), or
    ZooKeeper. There the user's keys belong to zookeeper.digest.user of --config, with zookeeper.set.acl=true.

    \b
    Examples:
      odradek users bootstrap admin --data ./data
      odradek users bootstrap admin --config broker.properties --password-file admin.password
    """
    from odradek.cli.security.first_user import bootstrap_user, registry_of
    from odradek.security.authentication.scram import check_user_name

    check_user_name(name)
    registry, entries = registry_of(
        data=data, zookeeper=zookeeper, config=config, may_be_unprotected=unprotected
    )
    wanted = mechanisms or (MECHANISM_DEFAULT,)
    password = read_password(name, **source)
    was_there = bootstrap_user(
        registry, entries, name=name, password=password, mechanisms=wanted, iterations=iterations
    )
    _say_done(session, name, "replaced" if was_there else "set", wanted)


async def _describe_users(client: Client, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """The iterations by user and mechanism, of all without `names`. Raises ResourceNotFound for a missing user."""
    from odradek.client.admin.scram import ScramAdmin
    from odradek.foundation.errors import ResourceNotFound

    found = await ScramAdmin(client).describe(list(dict.fromkeys(names)) or None)
    for name in names:
        if name not in found:
            raise ResourceNotFound(
                f"the user {name} has no password of SCRAM; `odradek users list` shows all users"
            )
    return found


def _raise_first(outcomes: Mapping[str, OdradekError | None]) -> None:
    for failure in outcomes.values():
        if failure is not None:
            raise failure


def _say_done(session: CommandSession, name: str, verb: str, mechanisms: tuple[str, ...]) -> None:
    document = {"user": name, "result": verb, "mechanisms": list(mechanisms)}
    say(session.output, f"{verb}  user {name}: {', '.join(mechanisms)}", document)
