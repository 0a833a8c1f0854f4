"""Runs tests while random processes of the run are stopped (SIGSTOP) for 0.1 to 1.5 s: what waits too little fails.

`python -m tests.shaken [--stopped 2] [--seed N] [pytest's arguments]`, or `make test-shaken`. A machine whose
processors are busy elsewhere does the same to a test, once in a thousand runs. Workers of pytest-xdist are stopped as
well as brokers, ZooKeeper and clients; the process that reports is not. All are continued at the end.

The seed repeats the choices of processes and times, as far as the run itself is repeatable.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import random
import signal
import subprocess
import sys
import time
from typing import Final

import psutil

STOP_SECONDS: Final = (0.1, 1.5)
_LOOK_EVERY_SECONDS: Final = 0.05


class Shaker:
    """Stops processes below one process, and continues each after its time."""

    def __init__(self, root: psutil.Process, *, stopped_max: int, chance: random.Random) -> None:
        self.stops = 0
        self._root = root
        self._stopped_max = stopped_max
        self._chance = chance
        self._until: list[tuple[float, int, psutil.Process]] = []

    def turn(self, now: float) -> None:
        """Continue what was stopped for long enough, and stop others in its place."""
        self._continue_due(now)
        if len(self._until) >= self._stopped_max:
            return
        stopped = {process.pid for _, _, process in self._until}
        below = [process for process in self._root.children(recursive=True) if process.pid not in stopped]
        self._chance.shuffle(below)
        for process in below[: self._stopped_max - len(self._until)]:
            with contextlib.suppress(psutil.Error):
                process.suspend()
                self.stops += 1
                heapq.heappush(self._until, (now + self._chance.uniform(*STOP_SECONDS), process.pid, process))

    def end(self) -> None:
        """Continue all that is stopped."""
        self._continue_due(float("inf"))

    def _continue_due(self, now: float) -> None:
        while self._until and self._until[0][0] <= now:
            with contextlib.suppress(psutil.Error):
                heapq.heappop(self._until)[2].resume()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shaken", description=__doc__)
    parser.add_argument("--stopped", type=int, default=2, help="processes that are stopped at each moment")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options, arguments = parser.parse_known_args()
    print(
        f"shaken with --seed {options.seed}: {options.stopped} processes are stopped at each moment",
        flush=True,
    )
    run = subprocess.Popen([sys.executable, "-m", "pytest", *arguments])
    shaker = Shaker(psutil.Process(run.pid), stopped_max=options.stopped, chance=random.Random(options.seed))
    try:
        while run.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                shaker.turn(time.monotonic())
            time.sleep(_LOOK_EVERY_SECONDS)
    except KeyboardInterrupt:
        run.send_signal(signal.SIGINT)
    finally:
        shaker.end()
    run.wait()
    print(f"{shaker.stops} stops; again with --seed {options.seed}", flush=True)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
