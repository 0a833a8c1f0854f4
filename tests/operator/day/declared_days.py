"""Many days of Topics and Users: `make declared-days SEEDS=100 SEED=1`. Each process has a broker of its own.

A day that fails prints what happened; others continue.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import traceback
from itertools import chain
from pathlib import Path
from typing import Final

from tests.operator.day.__main__ import report_days
from tests.operator.day.declared_day import DeclaredDay, Unkept
from tests.operator.support.broker_world import play
from tests.operator.support.user_world import SecuredClusterBroker, UserWorld

SEEDS_OF_A_BROKER: Final = 25


def play_days(seeds: range) -> list[tuple[int, int, str]]:
    """For each seed how much happened on its day, and why it failed or nothing."""
    played = []
    with tempfile.TemporaryDirectory(prefix="odradek-declared-days-") as folder:
        broker = SecuredClusterBroker(Path(folder))
        broker.start()
        try:
            for seed in seeds:
                played.append(_play(broker, seed))
                if played[-1][2]:
                    break  # What the day has left on the broker would be found on the next one.
        finally:
            broker.close()
    return played


def _play(broker: SecuredClusterBroker, seed: int) -> tuple[int, int, str]:
    happened = 0

    async def story(world: UserWorld) -> None:
        nonlocal happened
        day = DeclaredDay(world, seed)
        try:
            await day.play()
        finally:
            happened = len(day.history)

    try:
        play(broker, story, UserWorld)
    except Unkept as unkept:
        return seed, happened, str(unkept)
    except Exception:  # any other end of a day is a finding too
        return seed, happened, traceback.format_exc()
    return seed, happened, ""


def main(seeds: int, first: int, jobs: int) -> int:
    """Exit code 0 when every day held."""
    parts = [
        range(start, min(start + SEEDS_OF_A_BROKER, first + seeds))
        for start in range(first, first + seeds, SEEDS_OF_A_BROKER)
    ]
    with multiprocessing.Pool(jobs) as pool:
        return report_days(
            chain.from_iterable(pool.imap_unordered(play_days, parts)),
            title="days",
            replay=lambda seed: f"make declared-days SEEDS=1 SEED={seed}",
        )


if __name__ == "__main__":
    sys.exit(
        main(
            int(os.environ.get("SEEDS") or 100),
            int(os.environ.get("SEED") or 1),
            int(os.environ.get("JOBS") or 0) or os.cpu_count() or 1,
        )
    )
