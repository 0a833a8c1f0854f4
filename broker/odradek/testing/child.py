"""The broker's side of `process`: `odradek start`, with commands from the test that started it. A thread reads commands
from stdin, one JSON object a line, and answers each on stdout. When stdin ends the test process has ended, and this one
ends at once: its data is no longer needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any, Final

from odradek.cli.cluster.start_options import parse
from odradek.cli.cluster.start_run import run
from odradek.testing.fixture_client import FIXTURE_CLIENT_ID

# How long a command waits for a broker that is not ready yet.
READY_SECONDS_MAX: Final = 30.0


class Commands:
    """Reads commands from stdin and applies them in the broker's loop."""

    def __init__(self) -> None:
        self._broker: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()

    def ready(self, broker: Any) -> None:
        """Note that the broker serves; called in its loop."""
        broker.control.faults.spare(FIXTURE_CLIENT_ID)
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._is_ready.set()

    def watch(self) -> None:
        """Read until stdin ends, then end the process."""
        # By descriptor: a thread that waits inside Python's buffered stdin makes the interpreter abort at its end.
        received = b""
        while data := os.read(0, 65536):
            received += data
            *lines, received = received.split(b"\n")
            for line in lines:
                answer = self._apply(json.loads(line))
                os.write(1, json.dumps(answer).encode() + b"\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def _apply(self, command: dict[str, object]) -> dict[str, object]:
        # A test that has read the `ready` line may send a command before `on_ready` is called.
        self._is_ready.wait(READY_SECONDS_MAX)
        if self._loop is None:
            return {"error": "the broker is not ready"}
        done: asyncio.Future[None] | Any = asyncio.run_coroutine_threadsafe(
            self._in_loop(command), self._loop
        )
        try:
            done.result()
        except (ValueError, KeyError, TypeError) as failure:
            return {"error": str(failure)}
        return {}

    async def _in_loop(self, command: dict[str, object]) -> None:
        faults = self._broker.control.faults
        if command.pop("do") == "clear":
            faults.clear()
        else:
            faults.add(**command)


def main() -> int:
    """Run the broker with the arguments of `odradek start`. Returns the exit code."""
    arguments = parse(sys.argv[1:])
    if arguments is None:
        print(f"cannot read the arguments {sys.argv[1:]}", file=sys.stderr)
        return 2
    commands = Commands()
    threading.Thread(target=commands.watch, name="odradek.testing", daemon=True).start()
    return run(arguments, testing_faults=True, on_ready=commands.ready)


if __name__ == "__main__":
    sys.exit(main())
