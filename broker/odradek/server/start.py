"""Runs one broker until a signal: loop, logging of the start, signals, the `ready` line, exit code.

The first SIGTERM or SIGINT begins a controlled stop. A second one ends the process at once, unclean. A second one that
follows within a moment counts as the first: timeout(1) and some inits signal a process and then its group. Exit codes:
0 after a controlled stop, 1 when the start failed, 2 for invalid settings, 130 for the second signal.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import OdradekError, SettingError
from odradek.foundation.event_loop import new_event_loop
from odradek.foundation.settings.broker_settings import Settings
from odradek.server import late
from odradek.server.garbage import searches_at_quiet_moments

if TYPE_CHECKING:
    from odradek.broker.process.broker_process import BrokerProcess
    from odradek.broker.process.local_control import LocalControl
    from odradek.broker.process.testing_faults import Faults
    from odradek.server.http.admin import AdminServer

logger = logging.getLogger(__name__)

EXIT_CLEAN: Final = 0
EXIT_FAILED: Final = 1
EXIT_SETTINGS: Final = 2
EXIT_FORCED: Final = 130
SAME_SIGNAL_SECONDS: Final = 0.5


def run(
    settings: Settings,
    *,
    admin: tuple[str, int] | None = None,
    on_ready: Callable[[BrokerProcess[LocalControl]], None] | None = None,
    testing_faults: bool = False,
) -> int:
    """Serve until a signal; returns the exit code.

    `admin` is (host, port) of the HTTP server, port 0 for a free one. `on_ready` is called with the broker after the
    `ready` line was printed.
    """
    return run_loop(_serve(settings, admin=admin, on_ready=on_ready, testing_faults=testing_faults))


def run_loop(main: Coroutine[object, None, int]) -> int:
    """Run the coroutine `main` on the fastest event loop installed."""
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            if isinstance(runner.get_loop(), asyncio.SelectorEventLoop):
                logger.info("uvloop is not installed; the standard event loop serves, more slowly")
            return runner.run(main)
    finally:
        # Python would warn that it never ran if Ctrl-C came before the loop ran.
        main.close()


async def _serve(
    settings: Settings,
    *,
    admin: tuple[str, int] | None,
    on_ready: Callable[[BrokerProcess[LocalControl]], None] | None,
    testing_faults: bool,
) -> int:
    from odradek.broker.process.broker_process import BrokerProcess
    from odradek.broker.process.local_control import LocalControl

    # What is loaded by now stays until the end, and no search for garbage needs to visit it. Searches begin here where
    # the start has disabled them (`__main__`).
    gc.freeze()
    gc.enable()
    stopping = asyncio.Event()
    follow_signals(stopping)
    faults: Faults | None = None
    if testing_faults:
        faults = late.Faults()
    admin_server: AdminServer | None = None
    try:
        broker = BrokerProcess(settings, control=LocalControl(faults=faults))
        if admin is not None:
            admin_server = late.AdminServer(broker, host=admin[0], port=admin[1], faults=faults)
            await admin_server.start()
        await broker.start()
    except (OdradekError, OSError) as error:
        if admin_server is not None:
            await admin_server.stop()
        print(f"odradek: cannot start: {error_text(error)}", file=sys.stderr, flush=True)
        return EXIT_SETTINGS if isinstance(error, SettingError) else EXIT_FAILED
    _warn_of_guessed_addresses(broker, settings)
    print(_ready_line(broker, admin_server), flush=True)
    if on_ready is not None:
        on_ready(broker)
    async with searches_at_quiet_moments(lambda: broker.is_at_long_work):
        await stopping.wait()
    if admin_server is not None:
        await admin_server.stop()
    await broker.stop()
    return EXIT_CLEAN


def error_text(error: Exception) -> str:
    """An error's text without its number."""
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return error.strerror
    return str(error)


def _ready_line(broker: BrokerProcess[LocalControl], admin_server: AdminServer | None) -> str:
    addresses = " ".join(str(endpoint) for endpoint in broker.endpoints)
    line = f"ready id={broker.broker_id} cluster={broker.images.current.cluster_id} {addresses}"
    return line if admin_server is None else f"{line} admin={admin_server.url}"


def _warn_of_guessed_addresses(broker: BrokerProcess[LocalControl], settings: Settings) -> None:
    """Warn of guessed advertised addresses: a client on another machine may not reach them."""
    for given, resolved in zip(settings.advertised_endpoints, broker.endpoints, strict=True):
        if given.host != resolved.host:
            logger.warning(
                "%s listens on every interface, and %s:%d is advertised to clients; if they cannot reach it, "
                "set another address by advertised.listeners or --advertise HOST:PORT",
                resolved.listener_name,
                resolved.host,
                resolved.port,
            )


def follow_signals(stopping: asyncio.Event) -> None:
    """Set `stopping` at the first SIGTERM or SIGINT; a later one ends the process at once."""
    loop = asyncio.get_running_loop()
    stopped_at: float | None = None

    def stop(name: str) -> None:
        nonlocal stopped_at
        if stopped_at is None:
            logger.info("%s: stopping cleanly; a second signal ends it at once", name)
            stopped_at = loop.time()
            stopping.set()
        elif loop.time() - stopped_at >= SAME_SIGNAL_SECONDS:
            logger.error("%s again: ending at once, without flushing", name)
            os._exit(EXIT_FORCED)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
