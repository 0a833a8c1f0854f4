"""The command `odradek`: hands the arguments to the command line.

`start` takes a short path that imports neither click nor any client. The time from exec to the first acknowledged
record is a feature, and click alone costs more than a tenth of it. Every other verb goes through `cli.main`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. `arguments` are those after the program's name. Returns the exit code (`cli.exit_codes`)."""
    _open_closed_streams()
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        # Ctrl-C while the command was still being loaded; 130 as in `cli.exit_codes`, which may not be loaded either.
        return 130


def _open_closed_streams() -> None:
    """Let a stream that the caller closed, as a shell does with `>&-`, be empty; Python has None for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


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
