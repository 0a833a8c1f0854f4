"""Many days: `make operator-days SEEDS=100 SEED=1 HOURS=24`. A day that fails prints what happened; others continue."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Iterable
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


def report_days(days: Iterable[tuple[int, int, str]], *, title: str, replay: Callable[[int], str]) -> int:
    """Print what failed, and at the end how many held. Exit code 0 when every day did.

    A day is a seed, how much happened, and why it failed or nothing. `replay` is the command that plays a seed again.
    """
    happened = played = failed = 0
    for seed, count, failure in days:
        played += 1
        happened += count
        if failure:
            failed += 1
            print(f"seed {seed}: {failure}\nreplay: {replay(seed)}", flush=True)
        if failed == FAILURES_MAX:
            break
    print(f"{played - failed} of {played} {title} held, {happened} things happened on them")
    return 1 if failed else 0


def main(seeds: int, first: int, hours: float, jobs: int) -> int:
    """Exit code 0 when every day held."""
    with multiprocessing.Pool(jobs) as pool:
        return report_days(
            pool.imap_unordered(partial(play, hours=hours), range(first, first + seeds)),
            title=f"days of {hours:g} hours",
            replay=lambda seed: f"make operator-days SEEDS=1 SEED={seed} HOURS={hours:g}",
        )


if __name__ == "__main__":
    sys.exit(
        main(
            int(os.environ.get("SEEDS") or 100),
            int(os.environ.get("SEED") or 1),
            float(os.environ.get("HOURS") or 24),
            int(os.environ.get("JOBS") or 0) or os.cpu_count() or 1,
        )
    )
