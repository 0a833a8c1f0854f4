"""The tour's copy: a second cluster, and a mirror that copies the orders to it, each once."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

from demo.clients import read
from demo.stage import (
    READY_SECONDS_MAX,
    STOP_SECONDS_MAX,
    Broker,
    DemoFailedError,
    act,
    command_line,
    explain,
    quote,
)
from odradek.foundation import interpreter

_COPY_SECONDS_MAX: Final = 60
_PROPERTIES: Final = """clusters = east, west
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}
east->west.enabled = true
east->west.topics = orders
replication.factor = 1
emit.checkpoints.enabled = false
emit.offset-syncs.enabled = false
emit.heartbeats.enabled = false
"""


def show(broker: Broker, *, folder: Path, orders: int) -> None:
    """Mirror all orders into another broker, and count them there. Raises DemoFailedError."""
    act("A copy in another cluster")
    folder.mkdir()
    west = Broker(folder)
    west.start()
    mirror: subprocess.Popen[str] | None = None
    try:
        file = folder / "mm2.properties"
        file.write_text(_PROPERTIES.format(east=broker.listen, west=west.listen))
        command_line("odradek mirror --config mm2.properties")
        mirror = _started(file, folder / "mirror.log")
        found: Counter[int] = Counter()
        deadline = time.perf_counter() + _COPY_SECONDS_MAX
        while found.total() < orders and time.perf_counter() < deadline:
            found.update(read(west.listen, "east.orders", group="auditors"))
        explain(
            f"The file is MirrorMaker's. Of {orders:,} orders {orders - len(found)} are missing in the other cluster, "
            f"and {found.total() - len(found)} came twice: records and positions share transactions."
        )
        if len(found) != orders or found.total() != orders:
            raise DemoFailedError("the mirror lost or doubled orders")
        mirror.send_signal(signal.SIGTERM)
        if mirror.wait(STOP_SECONDS_MAX) != 0:
            raise DemoFailedError(f"the mirror did not end cleanly:\n{(folder / 'mirror.log').read_text()}")
    finally:
        if mirror is not None:
            if mirror.poll() is None:
                mirror.kill()
            mirror.wait()
            if mirror.stdout is not None:
                mirror.stdout.close()
        west.close()


def _started(file: Path, log_file: Path) -> subprocess.Popen[str]:
    with log_file.open("w") as log:
        mirror = subprocess.Popen(
            interpreter.command("odradek", "mirror", "--config", str(file)),
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
            text=True,
            env=interpreter.environment(),
        )
    assert mirror.stdout is not None
    watchdog = threading.Timer(READY_SECONDS_MAX, mirror.kill)
    watchdog.start()
    line = mirror.stdout.readline()
    watchdog.cancel()
    if not line.startswith("ready "):
        mirror.kill()
        raise DemoFailedError(f"the mirror did not start:\n{log_file.read_text()}")
    quote(line)
    return mirror
