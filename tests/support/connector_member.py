"""A program with one consumer of a ZooKeeper group: `python -m tests.support.connector_member CONNECT GROUP TOPIC`.

A test starts it as `Member`.

It prints each message on a line of its own as soon as it has it. At SIGTERM it commits and leaves its group.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

from odradek.classic import ConsumerConnector, ConsumerTimeoutException
from tests.support.local_process import LocalProcess


class Member(LocalProcess):
    """The program as a process, started."""

    def __init__(self, output: Path, connect: str, group: str, topic: str) -> None:
        super().__init__(output)
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.support.connector_member",
            connect,
            group,
            topic,
        ]
        self.spawn(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})

    def lines(self) -> list[str]:
        """The messages that it has taken."""
        return [line for line in self.log().split("\n") if line.isdecimal()]


def main(connect: str, group: str, topic: str) -> None:
    properties = {
        "zk.connect": connect,
        "groupid": group,
        "autooffset.reset": "smallest",
        "zk.sessiontimeout.ms": 3_000,
        "autocommit.interval.ms": 50,
        "consumer.timeout.ms": 200,
    }
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with ConsumerConnector(properties) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        print("ready", flush=True)
        while not stopped.is_set():
            with suppress(ConsumerTimeoutException):
                print(next(stream).message.decode(), flush=True)
        connector.commit_offsets()


if __name__ == "__main__":
    main(*sys.argv[1:])
