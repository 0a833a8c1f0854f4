"""Runs one broker or one controller of a cluster until a signal, as `server.start` runs a single node.

A broker waits for a controller without a limit, and a signal ends that wait too. ZooKeeper must answer within
zookeeper.connection.timeout.ms. Exit codes are those of `server.start`; 1 also when another broker has taken this
one's id.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

from odradek.foundation.errors import OdradekError, SettingError
from odradek.foundation.scheduling import SHORT_NANOSECONDS, ask_for_slices
from odradek.foundation.settings.broker_settings import Settings
from odradek.network.network import SharingNetwork
from odradek.server import late
from odradek.server.garbage import searches_at_quiet_moments
from odradek.server.member import Address, MachineMember, watch_parent
from odradek.server.start import (
    EXIT_CLEAN,
    EXIT_FAILED,
    EXIT_SETTINGS,
    error_text,
    follow_signals,
    run_loop,
)

logger = logging.getLogger(__name__)


class _Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class _Process(_Server, Protocol):
    @property
    def is_at_long_work(self) -> bool: ...


class _Http(_Server, Protocol):
    @property
    def url(self) -> str: ...


def run_broker(
    settings: Settings,
    *,
    registry: str,
    admin: Address | None = None,
    linger_seconds: float = 0.0,
    machine: MachineMember | None = None,
) -> int:
    """Serve until a signal; returns the exit code.

    `admin` is (host, port) of the HTTP server. After a controlled stop the process stays for `linger_seconds`, so that
    it refuses connections of clients that still have its address. With `machine` it is one of several processes, and
    stops when the one that started it has ended.
    """
    return run_loop(
        _serve_broker(
            settings, registry=registry, admin=admin, linger_seconds=linger_seconds, machine=machine
        )
    )


def run_controller(settings: Settings, *, registry: str, admin: Address | None = None) -> int:
    """As `run_broker`."""
    return run_loop(_serve_controller(settings, registry=registry, admin=admin))


async def _serve_broker(
    settings: Settings,
    *,
    registry: str,
    admin: Address | None,
    linger_seconds: float,
    machine: MachineMember | None,
) -> int:
    ending = _Ending()
    network = None
    if machine is not None:
        admin = machine.admin
        network = SharingNetwork(
            machine.listening,
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes,
        )
        watch_parent(ending.fail)
    broker = late.BrokerProcess(
        settings, control=late.ClusterControl(registry=registry, on_fatal=ending.fail), network=network
    )

    def make_http(address: Address) -> _Http:
        if machine is not None:
            return late.MachineAdminServer(broker, machine)
        return late.ClusterAdminServer(broker, host=address[0], port=address[1])

    def ready() -> str:
        addresses = " ".join(str(endpoint) for endpoint in broker.endpoints)
        return f"ready id={broker.broker_id} cluster={broker.images.current.cluster_id} {addresses}"

    return await _serve(
        broker, ending, admin=admin, make_http=make_http, ready=ready, linger_seconds=linger_seconds
    )


async def _serve_controller(settings: Settings, *, registry: str, admin: Address | None) -> int:
    ending = _Ending()
    controller = late.ControllerProcess(settings, registry=registry)

    def make_http(address: Address) -> _Http:
        server = late.HttpServer(
            checks={"serving": controller.not_ready},
            host=address[0],
            port=address[1],
            guard=late.guard_of(settings, controller.client_configs, login_secret=controller.login_secret),
        )
        late.register_controller(controller, server.registry)
        return server

    def ready() -> str:
        return f"ready controller id={controller.id} {controller.endpoint}"

    return await _serve(controller, ending, admin=admin, make_http=make_http, ready=ready)


class _Ending:
    """Whether the process must end, and the reason unless it is a signal."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.failure: str | None = None
        follow_signals(self.event)

    def fail(self, reason: str) -> None:
        self.failure = reason
        self.event.set()


async def _serve(
    process: _Process,
    ending: _Ending,
    *,
    admin: Address | None,
    make_http: Callable[[Address], _Http],
    ready: Callable[[], str],
    linger_seconds: float = 0.0,
) -> int:
    http: _Http | None = None
    try:
        if admin is not None:
            http = make_http(admin)
            await http.start()
        is_started = await _start_unless_stopped(ending.event, process.start())
    except (OdradekError, OSError) as error:
        if http is not None:
            await http.stop()
        print(f"odradek: cannot start: {error_text(error)}", file=sys.stderr, flush=True)
        return EXIT_SETTINGS if isinstance(error, SettingError) else EXIT_FAILED
    if is_started:
        line = ready() if http is None else f"{ready()} admin={http.url}"
        print(line, flush=True)
        ask_for_slices(SHORT_NANOSECONDS)
        async with searches_at_quiet_moments(lambda: process.is_at_long_work):
            await ending.event.wait()
    if http is not None:
        await http.stop()
    if is_started:
        await process.stop()
    if ending.failure is not None:
        print(f"odradek: ended: {ending.failure}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    if is_started and linger_seconds:
        logger.info("stopped; connections are refused for another %g s", linger_seconds)
        await asyncio.sleep(linger_seconds)
    return EXIT_CLEAN


async def _start_unless_stopped(stopping: asyncio.Event, start: Awaitable[object]) -> bool:
    """Run `start` unless `stopping` is set first. Returns whether it has finished. Raises as `start`."""
    starting = asyncio.ensure_future(start)
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not starting.done():
        logger.info("the start is cancelled")
        starting.cancel()
        await asyncio.wait({starting})
        failure = None if starting.cancelled() else starting.exception()
        if failure is not None:
            logger.warning("the start failed while it was cancelled: %s", failure)
        return False
    starting.result()
    return True
