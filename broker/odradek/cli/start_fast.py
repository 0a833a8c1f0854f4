"""The short path of `odradek start`: parse, read the settings, run; nothing else is imported. It returns None for
arguments that it cannot parse, and click explains them.
"""

from __future__ import annotations

from odradek.cli.start_options import parse


def main(arguments: list[str]) -> int | None:
    """Run the broker until it is stopped. Returns the exit code, or None when click has to parse the arguments."""
    parsed = parse(arguments)
    if parsed is None:
        return None
    from odradek.cli.start_run import run

    return run(parsed)
