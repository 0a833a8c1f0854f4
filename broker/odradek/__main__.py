"""The command `odradek`: hands the arguments to the command line.

`start` takes a short path that imports neither click nor any client. The time from exec to the first acknowledged
record is a feature, and click alone costs more than a tenth of it. Every other verb goes through `cli.main`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

# They run until they are stopped, often without any stream of their own.
_SERVERS = ("start", "broker", "controller", "cluster", "console", "mirror")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. `arguments` are those after the program's name. Returns the exit code (`cli.exit_codes`)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams(is_server=bool(given) and given[0] in _SERVERS)
    try:
        return _run(given)
    except KeyboardInterrupt:
        # Ctrl-C while the command was still being loaded; 130 as in `cli.exit_codes`, which may not be loaded either.
        return 130


def _open_closed_streams(*, is_server: bool) -> None:
    """Put the null device where the caller closed a stream, as a shell does with `>&-`; Python has None for it.

    Reading from a closed stdin and writing to a closed stdout are errors: such a command has done nothing. The few
    lines of a server, and those on stderr, are dropped.
    """
    ways = {
        "stdin": ("r", os.O_WRONLY),
        "stdout": ("w", os.O_RDWR if is_server else os.O_RDONLY),
        "stderr": ("w", os.O_RDWR),
    }
    for name, (mode, access) in ways.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode, encoding="utf-8"))


def _run(given: list[str]) -> int:
    if given and given[0] == "start":
        from odradek.cli.cluster.start_options import parse

        arguments = parse(given[1:])
        if arguments is not None:  # else click explains what cannot be parsed
            # Imports leave little garbage, and looking for it takes a thirtieth of the start. `server.start` enables
            # it again.
            gc.disable()
            from odradek.cli.cluster.start_run import run

            return run(arguments)
    from odradek.cli import main as command_line

    return command_line.run(given)


if __name__ == "__main__":
    sys.exit(main())
