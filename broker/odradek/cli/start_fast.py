"""The short path of `odradek start`: parse, read the settings, run; nothing else is imported. It returns None for
arguments that it cannot parse, and click explains them.
"""

from __future__ import annotations

import gc

from odradek.cli.start_options import parse


def main(arguments: list[str]) -> int | None:
    """Run the broker until it is stopped. Returns the exit code, or None when click has to parse the arguments."""
    parsed = parse(arguments)
    if parsed is None:
        return None
    # Imports leave little garbage, and looking for it takes a thirtieth of the start. `server.start` enables it again.
    gc.disable()
    from odradek.cli.start_run import run

    return run(parsed)
