"""Runs `odradek top`: the screen on a terminal, else two looks and plain tables or a document."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Final

from odradek.cli.cluster.top.looks import Admins, ClusterLooks
from odradek.cli.cluster.top.printing import print_lists, top_document
from odradek.cli.cluster.top.rates import Comparison, compare
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared import interrupts
from odradek.cli.shared.admin_urls import parse_admin_ports
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import has_color, show_document
from odradek.client.client import Client
from odradek.client.properties import SECURITY_PROTOCOL
from odradek.client.secured import http_security
from odradek.foundation.errors import DependencyError, OdradekError
from odradek.foundation.top_limits import TOP_REQUEST_MS_MAX

_LIBRARY: Final = "textual"
_SCREEN: Final = "odradek.cli.cluster.top.screen"


def top(session: CommandSession, *, every_seconds: float, once: bool, admin_ports: Sequence[str]) -> int:
    # Wrong settings raise before a loop runs.
    security = http_security(session.settings.security)
    admins = Admins(parse_admin_ports(admin_ports, security), security)
    if once or session.is_json or not _is_on_terminal():
        shown = interrupts.run(_look_twice(session, admins, every_seconds))
        if not show_document(session.output, top_document(shown)):
            print_lists(shown)
        return ExitCode.OK
    if importlib.util.find_spec(_LIBRARY) is None:
        raise DependencyError(
            "the screen of `odradek top` needs a package that is not installed: pip install 'odradek[top]'. "
            "`odradek top --once` prints plain tables without it"
        )
    if not has_color():
        os.environ["NO_COLOR"] = "1"  # where the library looks for it
    interrupts.run(_show(session, admins, every_seconds))
    return ExitCode.OK


def _is_on_terminal() -> bool:
    """Whether a screen can be shown. The library draws on stderr."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _new_looks(session: CommandSession, client: Client, admins: Admins) -> ClusterLooks:
    settings = session.settings
    return ClusterLooks(
        client,
        bootstrap=settings.bootstrap.value,
        security_protocol=settings.values[SECURITY_PROTOCOL].value.upper(),
        admins=admins,
    )


def _wait_ms_max(session: CommandSession) -> int | None:
    return TOP_REQUEST_MS_MAX if session.given_timeout_seconds is None else None


async def _look_twice(session: CommandSession, admins: Admins, every_seconds: float) -> Comparison:
    """The second look, whose rates lie between the two. What the doctor cannot find is left out, not an error."""
    async with session.open_client(wait_ms_max=_wait_ms_max(session)) as client:
        looks = _new_looks(session, client, admins)
        first = await looks.look()
        await asyncio.sleep(every_seconds)
        second = await looks.look()
        try:
            findings = await looks.find()
        except (OdradekError, OSError):
            findings = None
        return compare(first, second, findings)


async def _show(session: CommandSession, admins: Admins, every_seconds: float) -> None:
    # Its module needs the library of an extra.
    screen = importlib.import_module(_SCREEN)
    async with session.open_client(wait_ms_max=_wait_ms_max(session)) as client:
        await screen.run_screen(
            _new_looks(session, client, admins),
            cluster=session.settings.bootstrap.value,
            every_seconds=every_seconds,
        )
