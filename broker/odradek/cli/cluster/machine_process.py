"""One process of `odradek broker --processes N`. It reads one line from its parent: what it is, and its settings.

Settings may have passwords, so they come by a pipe: every user of a machine sees the arguments of its processes.
"""

from __future__ import annotations

import json
import os
import sys

from odradek.cli.cluster.start_run import configure_logging
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.processes import process_entries
from odradek.server.cluster_start import run_broker
from odradek.server.member import MachineMember, read_member


class LogOptions(NamedTuple):
    """How much a process logs, and in which form."""

    level: str
    format: str


def write_document(machine: MachineMember, *, settings: Settings, registry: str, log: LogOptions) -> str:
    """The line for one process; `settings` are the machine's."""
    return json.dumps(
        {
            "machine": machine.write(),
            "settings": process_entries(settings, machine.number),
            "registry": registry,
            "log": list(log),
        }
    )


def main() -> int:
    """Serve until a signal, or the end of the parent. Returns the exit code."""
    received = b""
    # By descriptor: what is buffered in Python could not be waited for.
    while not received.endswith(b"\n"):
        data = os.read(0, 1 << 16)
        if not data:
            return 1
        received += data
    fields = json.loads(received)
    machine = read_member(fields["machine"])
    log = LogOptions(*fields["log"])
    configure_logging(log.level, log.format, process=machine.number)
    return run_broker(Settings(fields["settings"]), registry=fields["registry"], machine=machine)


if __name__ == "__main__":
    sys.exit(main())
