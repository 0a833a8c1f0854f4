"""Runs a mirror until a signal, as `server.start` runs a broker: settings, HTTP, the `ready` line, exit code.

The first SIGTERM or SIGINT ends the open transactions, leaves the groups and ends with exit code 0. Exit code 1 also
when the mirror would copy records in a loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from odradek.foundation.errors import OdradekError
from odradek.mirror.mirror import Mirror
from odradek.mirror.settings import MirrorSettings
from odradek.server import late
from odradek.server.start import EXIT_CLEAN, EXIT_FAILED, follow_signals, run_loop

logger = logging.getLogger(__name__)


def run_mirror(settings: MirrorSettings, *, admin: tuple[str, int] | None = None) -> int:
    """Mirror until a signal; returns the exit code. `admin` is (host, port) of the HTTP server."""
    return run_loop(_serve(settings, admin=admin))


async def _serve(settings: MirrorSettings, *, admin: tuple[str, int] | None) -> int:
    stopping = asyncio.Event()
    follow_signals(stopping)
    mirror = Mirror(settings)
    http = None
    if admin is not None:
        http = late.MirrorAdminServer(mirror, host=admin[0], port=admin[1])
        await http.start()
    running = asyncio.create_task(mirror.run(), name="mirror")
    started = asyncio.create_task(mirror.started.wait(), name="mirror has started")
    signalled = asyncio.create_task(stopping.wait(), name="signals")
    try:
        await asyncio.wait((running, started, signalled), return_when=asyncio.FIRST_COMPLETED)
        if started.done() and not running.done():
            print(_ready_line(mirror, None if http is None else http.url), flush=True)
        await asyncio.wait((running, signalled), return_when=asyncio.FIRST_COMPLETED)
        mirror.stop()
        await running
    except OdradekError as failure:
        print(f"odradek: the mirror ends: {failure}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    finally:
        started.cancel()
        signalled.cancel()
        if http is not None:
            await http.stop()
    return EXIT_CLEAN


def _ready_line(mirror: Mirror, url: str | None) -> str:
    flows = " ".join(flow.label for flow in mirror.flows)
    line = f"ready mirror {mirror.settings.name} worker={mirror.worker_id} {flows}"
    return line if url is None else f"{line} admin={url}"
