"""The option --admin of verbs that ask brokers' HTTP ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

ADMIN: Final = "--admin"


def admin_option(help: str) -> Callable[[F], F]:
    """The verb gets `admin_ports`: texts, which `admin_urls.parse_admin_ports` reads."""
    return click.option(ADMIN, "admin_ports", multiple=True, metavar="[http[s]://]HOST[:PORT]", help=help)
