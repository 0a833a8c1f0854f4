"""Where a password comes from: a file, the environment, or a prompt. Never an argument, which other users could see."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from odradek.cli.shared.options import combined
from odradek.foundation.errors import SettingError

PASSWORD_BYTES_MAX: Final = 4096
_STANDARD_INPUT: Final = "-"


# Without either option the password is asked for.
password_options = combined(
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


def read_password(user: str, *, password_file: str | None, password_variable: str | None) -> str:
    """The password for `user`. Raises SettingError for one that cannot be read, and UsageError without a source."""
    if password_file is not None and password_variable is not None:
        raise click.UsageError("--password-file and --password-variable exclude each other; give one of them")
    if password_file is not None:
        return _checked(_file_text(password_file), f"--password-file {password_file}")
    if password_variable is not None:
        text = os.environ.get(password_variable)
        if text is None:
            raise SettingError(f"--password-variable {password_variable}: there is no such variable")
        return _checked(text, f"--password-variable {password_variable}")
    if not sys.stdin.isatty():
        raise click.UsageError(
            "there is no terminal to ask for the password; give --password-file or --password-variable"
        )
    prompted = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True)
    return _checked(prompted, "the password")


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


def _checked(text: str, source: str) -> str:
    if not text:
        raise SettingError(f"{source}: the password is empty")
    if len(text.encode()) > PASSWORD_BYTES_MAX:
        raise SettingError(f"{source}: the password is longer than {PASSWORD_BYTES_MAX} bytes")
    return text
