"""Runs `odradek users`: takes a password from its source, and changes or lists users."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from odradek.cli.security.users import MECHANISM_DEFAULT
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import say, show
from odradek.client.admin.scram import ScramAdmin, ScramPassword, ScramRemoval
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError, ResourceNotFound, SettingError
from odradek.security.authentication.scram import check_user_name

PASSWORD_BYTES_MAX: Final = 4096

_STANDARD_INPUT: Final = "-"


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


def list_users(session: CommandSession) -> None:
    _show(session, ())


def describe(session: CommandSession, *, names: tuple[str, ...]) -> None:
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


def set_password(
    session: CommandSession, *, name: str, mechanisms: tuple[str, ...], iterations: int, **source: str | None
) -> None:
    check_user_name(name)
    wanted = mechanisms or (MECHANISM_DEFAULT,)
    password = read_password(name, **source)

    async def work(client: Client) -> None:
        # A request may name a user once only.
        for mechanism in wanted:
            one = ScramPassword(name, mechanism, password, iterations)
            _raise_first(await ScramAdmin(client).alter(passwords=[one]))

    session.run(work)
    say_done(session, name, "set", wanted)


def delete(session: CommandSession, *, name: str, mechanisms: tuple[str, ...]) -> None:
    async def work(client: Client) -> tuple[str, ...]:
        wanted = mechanisms or tuple((await _describe_users(client, [name]))[name])
        for mechanism in wanted:
            _raise_first(await ScramAdmin(client).alter(removals=[ScramRemoval(name, mechanism)]))
        return wanted

    say_done(session, name, "deleted", session.run(work))


async def _describe_users(client: Client, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """The iterations by user and mechanism, of all without `names`. Raises ResourceNotFound for a missing user."""
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


def say_done(session: CommandSession, name: str, verb: str, mechanisms: tuple[str, ...]) -> None:
    """Print what was done to the passwords of a user."""
    document = {"user": name, "result": verb, "mechanisms": list(mechanisms)}
    say(session.output, f"{verb}  user {name}: {', '.join(mechanisms)}", document)
