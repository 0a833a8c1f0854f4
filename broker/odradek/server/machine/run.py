"""Runs a machine of several brokers until a signal: its ports, its processes, the `ready` line, exit code.

This process serves nothing. It holds the ports that all brokers share, so that they are the machine's while a broker
starts again, and it keeps the processes. The first SIGTERM or SIGINT stops all brokers at once, each in its controlled
way. A second one ends them at once. Exit codes are those of `server.start`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from odradek.foundation.endpoints import complete
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.processes import check_machine, machine_name, process_id
from odradek.network.network import SystemNetwork
from odradek.server.machine.process import Process
from odradek.server.machine.supervisor import Supervisor
from odradek.server.member import Address, MachineMember
from odradek.server.start import EXIT_CLEAN, EXIT_FAILED, SAME_SIGNAL_SECONDS, error_text

logger = logging.getLogger(__name__)

_FOLDER = re.compile(r"process\.(\d+)")

NewDocument = Callable[[MachineMember], str]
"""Makes the line that a process reads first."""


class _Ports(NamedTuple):
    """The sockets of each listener, and of --admin."""

    listening: tuple[tuple[socket.socket, ...], ...]
    admin: tuple[socket.socket, ...]

    def close(self) -> None:
        for one in self.all():
            one.close()

    def all(self) -> Iterator[socket.socket]:
        for row in (*self.listening, self.admin):
            yield from row


def run_machine(
    settings: Settings,
    *,
    command: Sequence[str],
    new_document: NewDocument,
    admin: Address | None = None,
    linger_seconds: float = 0.0,
) -> int:
    """Serve until a signal; returns the exit code. Raises SettingError.

    `command` starts one process, which reads its first line by `new_document`. `admin` and `linger_seconds` are as
    `cluster_start.run_broker` has them.
    """
    check_machine(settings)
    warn_of_left_folders(settings)
    try:
        with tempfile.TemporaryDirectory(prefix="odradek-") as folder:
            return asyncio.run(_serve(settings, command, new_document, admin, linger_seconds, folder))
    except OSError as error:
        print(f"odradek: cannot start: {error_text(error)}", file=sys.stderr, flush=True)
        return EXIT_FAILED


def warn_of_left_folders(settings: Settings) -> None:
    """Warn of folders of processes that this machine had and does not start."""
    for path in settings.log_directories:
        try:
            names = os.listdir(path)
        except OSError:
            continue  # a broker makes it, or says why it cannot be used
        for name in sorted(names):
            found = _FOLDER.fullmatch(name)
            if found is not None and int(found[1]) > settings.broker_processes:
                logger.warning(
                    "%s/%s is left as it is: broker.processes=%d starts no process %s. Start it again if its broker "
                    "has replicas, and move them with `odradek brokers drain %d`",
                    path,
                    name,
                    settings.broker_processes,
                    found[1],
                    process_id(settings, int(found[1])),
                )


async def _serve(
    settings: Settings,
    command: Sequence[str],
    new_document: NewDocument,
    admin: Address | None,
    linger_seconds: float,
    folder: str,
) -> int:
    ports = await _bind(settings, admin)

    def member(number: int, restarts: int) -> MachineMember:
        count = settings.broker_processes
        return MachineMember(number, count, folder, restarts, ports.listening, admin, ports.admin)

    def document(number: int, restarts: int) -> str:
        return new_document(member(number, restarts))

    descriptors = [one.fileno() for one in ports.all()]
    supervisor = Supervisor(
        [
            Process(number, command, new_document=partial(document, number), descriptors=descriptors)
            for number in range(1, settings.broker_processes + 1)
        ]
    )
    signals = _follow_signals(supervisor, ports)
    code = await supervisor.run(lambda lines: print(_ready_line(settings, ports, lines), flush=True))
    ports.close()
    if code == EXIT_CLEAN and linger_seconds and signals.first.is_set():
        logger.info("stopped; connections are refused for another %g s", linger_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(linger_seconds):
                await signals.later.wait()
    return code


async def _bind(settings: Settings, admin: Address | None) -> _Ports:
    """Listen on the ports that all processes share. Raises OSError."""
    network = SystemNetwork(receive_buffer_bytes=settings.socket_receive_buffer_bytes)
    backlog = settings.socket_listen_backlog_size
    listening = []
    for endpoint in settings.listener_endpoints:
        bound = await network.bind(host=endpoint.host, port=endpoint.port, backlog=backlog)
        listening.append(tuple(bound))
    bound = [] if admin is None else await SystemNetwork().bind(host=admin[0], port=admin[1])
    return _Ports(tuple(listening), tuple(bound))


class _Signals(NamedTuple):
    """Whether SIGTERM or SIGINT came, and whether another one followed."""

    first: asyncio.Event
    later: asyncio.Event


def _follow_signals(supervisor: Supervisor, ports: _Ports) -> _Signals:
    """Stop at the first SIGTERM or SIGINT, and end at once at a later one."""
    loop = asyncio.get_running_loop()
    signals = _Signals(asyncio.Event(), asyncio.Event())
    stopped_at = 0.0

    def stop(name: str) -> None:
        nonlocal stopped_at
        if not signals.first.is_set():
            logger.info("%s: stopping all processes cleanly; a second signal ends them at once", name)
            stopped_at = loop.time()
            signals.first.set()
            # Each process has its own until it stops. Later connections are refused, and not kept waiting.
            ports.close()
            supervisor.stop()
        elif loop.time() - stopped_at >= SAME_SIGNAL_SECONDS:
            logger.error("%s again: ending at once, without flushing", name)
            signals.later.set()
            supervisor.kill()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    return signals


def _ready_line(settings: Settings, ports: _Ports, lines: Mapping[int, str]) -> str:
    """One line for the machine, from those of its processes."""
    endpoints = complete(
        settings.advertised_endpoints,
        bound_ports={
            endpoint.listener_name: row[0].getsockname()[1]
            for endpoint, row in zip(settings.listener_endpoints, ports.listening, strict=True)
        },
        host_name=os.uname().nodename,
    )
    brokers = ",".join(str(process_id(settings, number)) for number in sorted(lines))
    words = [
        f"machine={machine_name(settings)}",
        f"brokers={brokers}",
        *(word for word in lines[1].split() if word.startswith("cluster=")),
        *map(str, endpoints),
        *(word for word in lines[1].split() if word.startswith("admin=")),
    ]
    return f"ready {' '.join(words)}"
