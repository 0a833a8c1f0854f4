"""Many days: `make operator-days SEEDS=100 SEED=1 HOURS=24`. A day that fails prints what happened; others continue."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from functools import partial
from typing import Final

from tests.operator.day.day import Broken, Day

FAILURES_MAX: Final = 10


def play(seed: int, hours: float) -> tuple[int, int, str]:
    """The seed, how much happened on its day, and why it failed or nothing."""
    day = Day(seed, hours=hours)
    try:
        day.play()
    except Broken as broken:
        return seed, len(day.history), str(broken)
    except Exception:  # any other end of a day is a finding too
        return seed, len(day.history), traceback.format_exc()
    return seed, len(day.history), ""


def main(seeds: int, first: int, hours: float, jobs: int) -> int:
    """Exit code 0 when every day held."""
    happened = played = failed = 0
    with multiprocessing.Pool(jobs) as pool:
        for seed, count, failure in pool.imap_unordered(
            partial(play, hours=hours), range(first, first + seeds)
        ):
            played += 1
            happened += count
            if failure:
                failed += 1
                print(
                    f"seed {seed}: {failure}\nreplay: make operator-days SEEDS=1 SEED={seed} HOURS={hours:g}",
                    flush=True,
                )
            if failed == FAILURES_MAX:
                break
    print(f"{played - failed} of {played} days of {hours:g} hours held, {happened} things happened on them")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(
        main(
            int(os.environ.get("SEEDS") or 100),
            int(os.environ.get("SEED") or 1),
            float(os.environ.get("HOURS") or 24),
            int(os.environ.get("JOBS") or 0) or os.cpu_count() or 1,
        )
    )
