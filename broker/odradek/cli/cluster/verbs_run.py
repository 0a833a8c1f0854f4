"""Runs `odradek cluster`: the lock of its folder, and its child processes in their order."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import click

from odradek.cli.cluster import zookeeper_server
from odradek.cli.cluster.cluster_children import Child, ChildFailed, Children
from odradek.cli.cluster.start_options import StartArguments
from odradek.cli.cluster.start_run import entries_of, require_folder
from odradek.foundation import interpreter
from odradek.foundation.errors import SettingError
from odradek.foundation.private_files import make_private_directory
from odradek.foundation.settings.broker_settings import Settings
from odradek.server.start import SAME_SIGNAL_SECONDS
from odradek.storage.disk_space import error_text, start_advice

_REPLICAS_MAX = 3

_FIRST_CONTROLLER_ID = 101
# With less free space the first start would fill the disk.
_TRIAL_BYTES = 1024 * 1024

_LOCK_NAME = ".lock"

_PID_BYTES_MAX = 32


def cluster(
    brokers: int,
    controllers: int,
    data: str,
    listen: str,
    zookeeper: str | None,
    zookeeper_port: int | None,
    settings: tuple[str, ...],
) -> int:
    if zookeeper is not None and zookeeper_port is not None:
        raise SettingError(
            "--zookeeper-port is for a ZooKeeper that is started; --zookeeper names one that runs"
        )
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise SettingError(f"--listen {listen}: write it like --listen 127.0.0.1:9092")
    _check(settings)
    if not data.strip():
        raise SettingError("--data is empty; name a directory, as --data ./cluster")
    require_folder(data)
    _make(Path(data))
    plan = _Plan(Path(data), brokers, controllers, host, int(port), settings, zookeeper_port)
    lock = ClusterLock(plan.folder)
    return asyncio.run(_run(plan, lock, zookeeper=zookeeper))


def _make(folder: Path) -> None:
    """Make the directory and the files that every start writes there. Raises OSError with a remedy in its message."""
    trial = folder / "logs" / ".trial"
    try:
        make_private_directory(str(folder), may_be_link=True)
        trial.parent.mkdir(exist_ok=True)
        trial.write_bytes(bytes(_TRIAL_BYTES))
        trial.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            trial.unlink()
        raise OSError(
            f"the cluster cannot store its data in {folder}: {error_text(error)}; {start_advice(error)}"
        ) from error


def _check(pairs: tuple[str, ...]) -> None:
    """Raises SettingError, before any process starts, for settings with which none would start."""
    Settings(entries_of(StartArguments(set=pairs)))


@dataclass(frozen=True)
class _Plan:
    """The processes of the cluster, and how each is started."""

    folder: Path
    broker_count: int
    controller_count: int
    host: str
    port: int
    settings: tuple[str, ...]
    zookeeper_port: int | None

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def controllers(self, zookeeper: str) -> list[Child]:
        numbers = range(_FIRST_CONTROLLER_ID, _FIRST_CONTROLLER_ID + self.controller_count)
        return [self._child("controller", number, zookeeper, 0) for number in numbers]

    def brokers(self, zookeeper: str) -> list[Child]:
        return [
            self._child(
                "broker",
                number,
                zookeeper,
                self.port + number - 1 if self.port else 0,
                f"--data={self.folder / f'broker-{number}'}",
            )
            for number in range(1, self.broker_count + 1)
        ]

    def _child(self, kind: str, number: int, zookeeper: str, port: int, *more: str) -> Child:
        replicas = min(_REPLICAS_MAX, self.broker_count)
        defaults = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "zookeeper.session.timeout.ms": 6_000,
        }
        settings = [*(f"{key}={value}" for key, value in defaults.items()), *self.settings]
        listen = f"--listen={self.host}:{port}"
        arguments = [kind, f"--id={number}", f"--zookeeper={zookeeper}", listen, *more]
        command = interpreter.command("odradek", *arguments, *(f"--set={pair}" for pair in settings))
        name = f"{kind}-{number}"
        return Child(name, command, self.log(name))


class ClusterLock:
    """One development cluster for each directory. Raises SettingError when another process holds the lock.

    Two ZooKeeper servers that write into one directory destroy each other's data. The one that is started here outlives
    a killed parent. So the lock is an open file that ZooKeeper inherits: it is held until both have ended. Brokers have
    locks of their own in their log directories.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / _LOCK_NAME
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self.descriptor, _PID_BYTES_MAX).decode(errors="replace").strip() or "?"
            os.close(self.descriptor)
            raise SettingError(
                f"{folder} is in use by another `odradek cluster`, or by the ZooKeeper of one that was killed "
                f"(process {holder}): end it, or give --data another directory"
            ) from None
        self.note(os.getpid())

    def note(self, pid: int) -> None:
        """Write the id of the process whose end frees the directory; a refused process shows it."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{pid}\n".encode(), 0)


async def _run(plan: _Plan, lock: ClusterLock, *, zookeeper: str | None) -> int:
    children = Children(click.echo)
    stopping = asyncio.Event()
    stopped_at = 0.0

    def stop() -> None:
        nonlocal stopped_at
        if not stopping.is_set():
            stopped_at = loop.time()
            stopping.set()
        elif loop.time() - stopped_at >= SAME_SIGNAL_SECONDS:
            children.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    starting = asyncio.ensure_future(_start(plan, children, lock, zookeeper))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            brokers = starting.result()
            click.echo(f"cluster ready bootstrap={','.join(child.address for child in brokers)}")
            await stopped
        return 0
    except ChildFailed as failure:
        click.echo(f"odradek: {failure}", err=True)
        return 1
    finally:
        starting.cancel()
        await asyncio.wait({starting})
        await children.stop()


async def _start(plan: _Plan, children: Children, lock: ClusterLock, zookeeper: str | None) -> list[Child]:
    if zookeeper is None:
        port = plan.zookeeper_port or zookeeper_server.free_port()
        command = zookeeper_server.command(plan.folder / "zookeeper", port=port)
        zookeeper = f"127.0.0.1:{port}"
        server = Child("zookeeper", command, plan.log("zookeeper"), inherits=[lock.descriptor])
        server.address = zookeeper
        await children.start(server, is_ready=lambda: zookeeper_server.answers(port))
        lock.note(server.pid)
    await children.start(*plan.controllers(zookeeper))
    brokers = plan.brokers(zookeeper)
    await children.start(*brokers)
    return brokers
