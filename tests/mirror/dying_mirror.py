"""A mirror as a process that dies, or stands still, at one step: `python -m tests.mirror.dying_mirror FILE STEP COUNT`.

STEP names a request and its moment: `txn-offset-commit:answered` is the time after the answer, `end-txn:sent` the time
before it. At the COUNT-th such moment the process ends as by SIGKILL. With `stop:` before it, it stops itself as by
SIGSTOP, until a test lets it continue. Without a STEP it runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from odradek.client.connection import BrokerConnection
from odradek.foundation.settings.file import parse_properties
from odradek.mirror import worker
from odradek.mirror.settings_file import read_mirror_settings
from odradek.server.mirror import run_mirror
from odradek.wire.protocol.api import ApiKey
from tests.support.mirroring import HEARTBEAT_MS, SESSION_MS

# The request is written by the loop's next turns; then the process has no part in what follows.
_WRITTEN_SECONDS = 0.02


def die_at(step: str, count: int) -> None:
    """Make this process die or stop at the COUNT-th request of this kind."""
    rest = step.removeprefix("stop:")
    how = signal.SIGSTOP if step.startswith("stop:") else signal.SIGKILL
    name, _, moment = rest.partition(":")
    wanted = ApiKey[name.replace("-", "_").upper()]
    left = [count]
    original = BrokerConnection.request

    async def request(self: BrokerConnection, api: ApiKey, **fields: Any) -> Any:
        if api != wanted:
            return await original(self, api, **fields)
        left[0] -= 1
        is_last = left[0] == 0
        if is_last and moment == "sent":
            answer = asyncio.ensure_future(original(self, api, **fields))
            await asyncio.sleep(_WRITTEN_SECONDS if how is signal.SIGSTOP else 0.001)
            os.kill(os.getpid(), how)
            return await answer
        found = await original(self, api, **fields)
        if is_last:
            os.kill(os.getpid(), how)
        return found

    BrokerConnection.request = request  # type: ignore[method-assign]


def main() -> int:
    path, *step = sys.argv[1:]
    vars(worker).update(MIRROR_SESSION_MS=SESSION_MS, MIRROR_HEARTBEAT_MS=HEARTBEAT_MS)
    if step:
        die_at(step[0], int(step[1]))
    return run_mirror(read_mirror_settings(parse_properties(Path(path).read_text()), source=path))


if __name__ == "__main__":
    sys.exit(main())
