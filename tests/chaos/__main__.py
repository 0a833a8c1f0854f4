"""Chaos on real processes for as long as asked: `make chaos SECONDS=3600 SEED=1`.

One cluster lives through rounds of a minute, each with its seed; what every round did and found is printed. A round
with an anomaly ends the run. Its report, the history and all logs are kept, and the command that repeats its schedule
is printed (`make chaos SECONDS=30 SEED=n`). A seed does not repeat the processes' own speed. CHAOS_KEEP=FOLDER keeps
everything of rounds that held, too; CHAOS_ISOLATED=0 does without namespaces. ATTACKERS=1 lets hostile clients attack
brokers and controllers all the while (`tests.chaos.attackers`).
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from tests.chaos import isolation
from tests.support.broker_process import CHECKOUT

if TYPE_CHECKING:
    from tests.chaos.round import Outcome
    from tests.chaos.world import ChaosCluster

ROUND_SECONDS: Final = 60.0
GUARDED_EVERY: Final = 5  # runs with ACLs and quotas
PER_SECOND: Final = 40.0  # records of each of the four writers


def main(seconds: float, seed: int) -> int:
    """Exit code 0 when everything held."""
    keeps_all = "CHAOS_KEEP" in os.environ
    kept = Path(tempfile.mkdtemp(prefix=f"odradek-chaos-{seed}-", dir=os.environ.get("CHAOS_KEEP")))
    print(
        f"chaos for {seconds:g} s from seed {seed}; isolated: {isolation.is_isolated()}; logs: {kept}",
        flush=True,
    )
    from tests.chaos.history import HistoryFile
    from tests.chaos.world import ChaosCluster

    # Its connection is lost again and again, and it says so each time.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)

    history = HistoryFile(kept / "world.jsonl")
    world = ChaosCluster(kept, history, is_guarded=seed % GUARDED_EVERY == 0)
    failed = True
    try:
        world.start()
        failed = not _rounds(world, kept, seconds, seed)
    except KeyboardInterrupt:
        print("ended before its time", flush=True)
        failed = False
        return 130
    finally:
        if failed:
            _keep(world, kept)
        world.close()
        history.close()
        if failed:
            print(f"what happened is kept in {kept}", flush=True)
        elif not keeps_all:
            shutil.rmtree(kept, ignore_errors=True)
    return 1 if failed else 0


def _rounds(world: ChaosCluster, kept: Path, seconds: float, seed: int) -> bool:
    """Whether all of them held."""
    from tests.chaos.round import Round, summary

    began = time.monotonic()
    number = 0
    records = faults = attacks = 0
    has_attackers = os.environ.get("ATTACKERS", "") not in ("", "0")
    beside = " ATTACKERS=1" if has_attackers else ""
    while number == 0 or time.monotonic() - began < seconds:
        of_round = seed + number
        length = min(ROUND_SECONDS, max(seconds - (time.monotonic() - began), 10.0))
        replay = f"replay: make chaos SECONDS={length:.0f} SEED={of_round}{beside}"
        playing = Round(
            world,
            kept / f"round-{number}",
            seed=of_round,
            seconds=length,
            per_second=PER_SECOND,
            has_attackers=has_attackers,
        )
        try:
            outcome = playing.play()
        except BaseException:
            print(replay, flush=True)
            raise
        finally:
            playing.close()
        print(f"{time.monotonic() - began:7.0f} s {summary(outcome)}", flush=True)
        if outcome.anomalies:
            _report(outcome, kept / f"round-{number}", replay)
            return False
        if "CHAOS_KEEP" not in os.environ:
            shutil.rmtree(kept / f"round-{number}", ignore_errors=True)
        records, faults = records + outcome.acknowledged, faults + outcome.faults
        attacks += outcome.attacks
        number += 1
    count = f"{attacks} attacks, " if has_attackers else ""
    print(f"held: {number} rounds, {faults} faults, {count}{records} records acknowledged")
    return True


def _report(outcome: Outcome, folder: Path, replay: str) -> None:
    (folder / "account.txt").write_text(outcome.report)
    print(f"FAILED: {outcome.report}\n{replay}", flush=True)


def _keep(world: ChaosCluster, kept: Path) -> None:
    """Copy the brokers' logs out of the file systems that end with this process."""
    from tests.chaos.world import BROKERS

    if isolation.is_isolated():
        for number in BROKERS:
            world.free_disk(number)
            shutil.copytree(
                world.data(number),
                kept / f"logs-of-broker-{number}",
                ignore_dangling_symlinks=True,
                dirs_exist_ok=True,
            )


def _end_in_order(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # The checkout's own code, not what the environment has installed; its processes run the same.
    sys.path[:0] = [str(CHECKOUT / "broker"), str(CHECKOUT)]
    os.environ["PYTHONPATH"] = f"{CHECKOUT / 'broker'}{os.pathsep}{CHECKOUT}"
    os.environ["SEED"] = os.environ.get("SEED") or str(random.randrange(1 << 30))
    isolation.enter()
    signal.signal(signal.SIGTERM, _end_in_order)
    sys.exit(main(float(os.environ.get("SECONDS_OF_CHAOS") or 60), int(os.environ["SEED"])))
