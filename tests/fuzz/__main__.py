"""Hostile bytes for as long as asked: `make fuzz SECONDS=600 SEED=1`.

Worlds are played one after another, each with its seed; a failure prints the seed that replays it alone
(`SEED=n SECONDS=0`). After each world all of it must be gone: objects and memory are counted at the end.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from typing import Final

import psutil

from tests.fuzz.world import FuzzedBroker, FuzzFailure, left_over, watching
from tests.support.loop import run

# Modules, caches of schemas and malloc's arenas have grown to their size by then.
WARM_UP_WORLDS: Final = 5
OBJECTS_PER_WORLD_MAX: Final = 100
GROWTH_BYTES_MAX: Final = 100 * 1024 * 1024


def main(seconds: float, seed: int) -> int:
    """Exit code 0 when everything held."""
    process = psutil.Process()
    print(f"fuzzing for {seconds:.0f} s from seed {seed}", flush=True)
    started = reported_at = time.monotonic()
    worlds = requests = objects_then = bytes_then = 0
    objects = size = 0
    with watching() as watch:
        while worlds == 0 or time.monotonic() - started < seconds:
            try:
                # Every second world is behind a login.
                requests += run(FuzzedBroker.play(seed + worlds, watch, logins=bool((seed + worlds) % 2)))
            except FuzzFailure as failure:
                print(f"FAILED: {failure}\nreplay: make fuzz SECONDS=0 SEED={seed + worlds}", flush=True)
                return 1
            except BaseException:
                print(f"replay: make fuzz SECONDS=0 SEED={seed + worlds}", flush=True)
                raise
            worlds += 1
            if left := left_over():
                print(f"FAILED: still in memory after world {seed + worlds - 1}: {left}", flush=True)
                return 1
            objects, size = len(gc.get_objects()), process.memory_info().rss
            if worlds == WARM_UP_WORLDS:
                objects_then, bytes_then = objects, size
            if time.monotonic() - reported_at > 30:
                reported_at = time.monotonic()
                print(f"{worlds} worlds, {requests} requests, {objects} objects, {size >> 20} MB", flush=True)
    print(f"held: {worlds} worlds, {requests} requests, {objects} objects, {size >> 20} MB at the end")
    if worlds > WARM_UP_WORLDS:
        if objects - objects_then > OBJECTS_PER_WORLD_MAX * (worlds - WARM_UP_WORLDS) + 10_000:
            print(
                f"FAILED: {objects_then} objects after the warm-up, {objects} at the end: something is kept"
            )
            return 1
        if size - bytes_then > GROWTH_BYTES_MAX:
            print(f"FAILED: {bytes_then >> 20} MB after the warm-up, {size >> 20} MB at the end")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(
        main(
            float(os.environ.get("SECONDS_TO_FUZZ") or 600),
            int(os.environ.get("SEED") or random.randrange(1 << 30)),
        )
    )
