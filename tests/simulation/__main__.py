"""Seeds one after another: `make sim SEEDS=1000 SEED=1`. One that fails prints its history and how to play it again."""

from __future__ import annotations

import os
import sys
import time

from tests.simulation.simulation import simulate


def main(seeds: int, first: int) -> int:
    """Exit code 0 when everything held in every seed."""
    started = told = time.monotonic()
    for number, seed in enumerate(range(first, first + seeds)):
        try:
            simulate(seed)
        except BaseException as failure:
            print(f"{failure}\n{type(failure).__name__}\nreplay: make sim SEEDS=1 SEED={seed}", flush=True)
            if not isinstance(failure, AssertionError):
                raise
            return 1
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"{number + 1} seeds, {(told - started) / (number + 1):.2f} s each", flush=True)
    print(f"held: {seeds} seeds from {first} in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(os.environ.get("SEEDS") or 100), int(os.environ.get("SEED") or 1)))
