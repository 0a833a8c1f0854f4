"""Runs `odradek console`: the settings of the connection, and the process that serves."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.cluster.start_run import configure_logging
from odradek.cli.shared.connection_settings import GivenOptions, new_client
from odradek.cli.shared.options import CommandSession
from odradek.client.properties import SECURITY_PROTOCOL
from odradek.console.http.server import ConsoleSettings
from odradek.console.serving import run_console
from odradek.foundation.console_limits import CONSOLE_REQUEST_MS_MAX


def console(
    session: CommandSession,
    *,
    host: str,
    port: int,
    allowed_hosts: Sequence[str],
    allow_changes: bool,
    log_level: str,
    log_format: str,
) -> int:
    configure_logging(log_level, log_format)
    settings = session.settings
    return run_console(
        lambda: new_client(settings, wait_ms_max=CONSOLE_REQUEST_MS_MAX),
        ConsoleSettings(
            host=host,
            port=port,
            bootstrap=settings.bootstrap.value,
            security_protocol=settings.values[SECURITY_PROTOCOL].value.upper(),
            connection=connection_words(session.given),
            allowed_hosts=allowed_hosts,
            may_change=allow_changes,
        ),
    )


def connection_words(given: GivenOptions) -> list[str]:
    """The options that name the cluster, as they were given: a command of the console's pages has the same."""
    named = {
        "--bootstrap": given.bootstrap,
        "--profile": given.profile,
        "--command-config": given.command_config,
    }
    return [word for option, value in named.items() if value is not None for word in (option, value)]
