"""The process of a broker with a name: `odradek start` that holds the name's lock. `background_start` runs it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from odradek.cli.cluster.named.named_broker import NamedBroker, NameTakenError, RunningProcess
from odradek.cli.cluster.start_options import StartArguments, parse
from odradek.cli.cluster.start_run import run
from odradek.client.addresses import Address

if TYPE_CHECKING:
    from odradek.broker.process.broker_process import BrokerProcess
    from odradek.broker.process.local_control import LocalControl
    from odradek.foundation.endpoints import Endpoint

# As `exit_codes.ExitCode`, which is not imported here since it imports the client.
_USAGE = 2
_EXISTS = 6


def main() -> int:
    """Serve as `NAME [OPTIONS of odradek start]`. Returns the exit code, `EXISTS` where the name's broker runs."""
    name, *rest = sys.argv[1:]
    arguments = parse(rest)
    if arguments is None:
        print(f"odradek: cannot read the arguments {rest}", file=sys.stderr)
        return _USAGE
    broker = NamedBroker(name)
    try:
        lock = broker.hold()
    except NameTakenError:
        return _EXISTS
    broker.note_process(RunningProcess(os.getpid(), None))

    def note_ready(serving: BrokerProcess[LocalControl]) -> None:
        broker.keep_start(with_ports(arguments, serving.endpoints))
        endpoint = serving.endpoints[0]
        broker.note_process(RunningProcess(os.getpid(), str(Address(endpoint.host, endpoint.port))))

    try:
        return run(arguments, on_ready=note_ready)
    finally:
        broker.note_process(None)
        os.close(lock)


def with_ports(arguments: StartArguments, endpoints: tuple[Endpoint, ...]) -> StartArguments:
    """The options with the ports that were chosen in place of 0, so that the next start listens there too."""
    if arguments.advertise or len(arguments.listen) != len(endpoints):
        return arguments
    listen = (
        f"{address.removesuffix(':0')}:{endpoint.port}" if address.endswith(":0") else address
        for address, endpoint in zip(arguments.listen, endpoints, strict=True)
    )
    return arguments._replace(listen=tuple(listen))


if __name__ == "__main__":
    sys.exit(main())
