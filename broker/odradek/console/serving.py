"""Runs a console until a signal: HTTP, the `ready` line, exit code.

The clusters need not answer at the start: a console that shows what is wrong is wanted most when something is.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from odradek.console.http.protection import LOOPBACK_NAMES, host_name
from odradek.console.http.server import ConsoleServer, ConsoleSettings
from odradek.server.start import EXIT_CLEAN, EXIT_FAILED, error_text, follow_signals, run_loop

logger = logging.getLogger(__name__)


def run_console(settings: ConsoleSettings) -> int:
    """Serve until a signal; returns the exit code."""
    return run_loop(_serve(settings))


async def _serve(settings: ConsoleSettings) -> int:
    stopping = asyncio.Event()
    follow_signals(stopping)
    server = ConsoleServer(settings)
    try:
        await server.start()
        _warn_of_reach(settings)
        print(f"ready console {server.url} {_name_clusters(settings)}", flush=True)
        await stopping.wait()
    except OSError as error:
        print(f"odradek: {error_text(error)}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    finally:
        await server.stop()
    return EXIT_CLEAN


def _name_clusters(settings: ConsoleSettings) -> str:
    """The address of the only cluster, or the names of several."""
    if len(settings.clusters) == 1:
        return f"cluster={settings.clusters[0].bootstrap}"
    return f"clusters={','.join(one.name for one in settings.clusters)}"


def _warn_of_reach(settings: ConsoleSettings) -> None:
    """Warn where other machines reach the console without a login, or with passwords in clear."""
    if host_name(settings.host) in LOOPBACK_NAMES or settings.host == "::1":
        return
    if settings.logins:
        if settings.url is None or not settings.url.startswith("https:"):
            logger.warning(
                "passwords of viewers cross the network in clear; put a proxy with TLS before %s:%d, and name it by "
                "--url https://…",
                settings.host,
                settings.port,
            )
        return
    what = "sees and changes" if settings.may_change else "sees"
    logger.warning(
        "each person who reaches %s:%d %s all that this user may. Let them log in by --logins, put a proxy with a "
        "login before it, or use --host 127.0.0.1",
        settings.host,
        settings.port,
        what,
    )
