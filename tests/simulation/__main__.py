"""Many seeds on all cores: `make sim SEEDS=1000 SEED=1 JOBS=2`.

Says now and then how many held and at which rate. One that fails prints its history and how to play it again, and the
others continue; after FAILURES_MAX failures all end.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
import traceback
from typing import Final, NamedTuple

from tests.simulation.history import InvariantBroken
from tests.simulation.simulation import simulate

FAILURES_MAX: Final = 10
REPORT_SECONDS: Final = 30.0
# A process makes room for another after so many seeds, so that nothing of one can gather.
SEEDS_PER_PROCESS: Final = 2_000


class Outcome(NamedTuple):
    """What became of a seed: nothing to say, or the failure as text."""

    seed: int
    failure: str


def outcome_of(seed: int) -> Outcome:
    """Play one seed."""
    try:
        simulate(seed)
    except InvariantBroken as broken:
        return Outcome(seed, str(broken))
    except Exception:
        # Any other end of a run is a finding too: the product's, or the simulation's own.
        return Outcome(seed, traceback.format_exc())
    finally:
        gc.collect()
        # What is left are modules that a run was the first to need: not to be looked at again.
        gc.freeze()
    return Outcome(seed, "")


def _prepare() -> None:
    # While a run lasts nearly all that the collector would look at is in use: it comes after each instead.
    gc.freeze()
    gc.disable()


def main(seeds: int, first: int, jobs: int) -> int:
    """Exit code 0 when everything held in every seed."""
    started = reported_at = time.monotonic()
    played = 0
    failed: list[int] = []
    print(f"seeds {first} to {first + seeds - 1}, {jobs} at a time", flush=True)
    with multiprocessing.Pool(jobs, initializer=_prepare, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        for seed, failure in pool.imap_unordered(outcome_of, range(first, first + seeds)):
            played += 1
            if failure:
                failed.append(seed)
                print(f"{failure}\nreplay: make sim SEEDS=1 SEED={seed}", flush=True)
                if len(failed) >= FAILURES_MAX:
                    break
            if time.monotonic() - reported_at > REPORT_SECONDS:
                reported_at = time.monotonic()
                print(_progress(played, seeds, len(failed), reported_at - started), flush=True)
    print(_progress(played, seeds, len(failed), time.monotonic() - started))
    if failed:
        print(f"failed: {sorted(failed)}")
        return 1
    print(f"held: {seeds} seeds from {first}")
    return 0


def _progress(played: int, seeds: int, failed: int, seconds: float) -> str:
    rate = played / max(seconds, 0.001)
    return f"{played} of {seeds} seeds in {seconds:.0f} s, {rate:.1f} a second, {failed} failed"


if __name__ == "__main__":
    sys.exit(
        main(
            int(os.environ.get("SEEDS") or 100),
            int(os.environ.get("SEED") or 1),
            int(os.environ.get("JOBS") or os.cpu_count() or 1),
        )
    )
