"""A queue under faults, at size: `make queue-proof RECORDS=1000000 MINUTES=20 SEED=1`.

Records go through a share group of eight members of three clients: ours, Kafka's and librdkafka. Members, leaders,
coordinators and controllers are killed and stopped, clients are cut off, and ZooKeeper goes away. Then all is healed,
and the queue is drained. Each record that was acknowledged must have been accepted once, or be in the dead-letter topic
(`tests.queues.check` has the rules). The last line has the figures. Logs of a run that failed are kept.
KEEP=FOLDER keeps them in any case; CHAOS_ISOLATED=0 does without namespaces.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from tests.chaos import isolation
from tests.support.broker_process import CHECKOUT

if TYPE_CHECKING:
    from tests.queues.proof import Outcome

_SHOWN_MAX: Final = 40


def main(records: int, seed: int, minutes: float) -> int:
    """Exit code 0 when everything held."""
    # Its connection is lost again and again, and it says so each time.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    from tests.queues.proof import Proof

    kept = Path(tempfile.mkdtemp(prefix=f"odradek-queues-{seed}-", dir=os.environ.get("KEEP")))
    print(
        f"{records} records from seed {seed}; isolated: {isolation.is_isolated()}; logs: {kept}", flush=True
    )
    proof = Proof(kept, records=records, seed=seed, seconds=60 * minutes)
    failed = True
    try:
        outcome = proof.play()
        failed = bool(outcome.breaches)
        report(outcome, kept, seed)
    except KeyboardInterrupt:
        print("ended before its time", flush=True)
        return 130
    finally:
        proof.close()
        if failed:
            print(f"what happened is kept in {kept}", flush=True)
        elif "KEEP" not in os.environ:
            shutil.rmtree(kept, ignore_errors=True)
    print(("FAILED: " if failed else "held: ") + summarize(outcome), flush=True)
    return 1 if failed else 0


def report(outcome: Outcome, folder: Path, seed: int) -> None:
    """Print what was done and found; all breaches go to a file."""
    for what, count in sorted(outcome.faults.items()):
        print(f"  {count} x {what}")
    for client, error, count in outcome.clients_failures:
        print(f"  {client}: {count} x {error}")
    if outcome.breaches:
        (folder / "breaches.txt").write_text("\n".join(map(str, outcome.breaches)) + "\n")
        for kind, count in Counter(breach.name for breach in outcome.breaches).most_common():
            print(f"  BREACH {count} x {kind}")
        for breach in outcome.breaches[:_SHOWN_MAX]:
            print(f"    {str(breach)[:1_500]}")
        print(f"  seed {seed} plays the same faults again, at another speed")


def summarize(outcome: Outcome) -> str:
    """One line of figures."""
    one = outcome.figures
    return (
        f"{one.records} records, {one.accepted} accepted, {one.given_up} in the dead-letter topic "
        f"({one.letters_twice} twice), {one.again} delivered again, {one.lost_answers} answers lost, "
        f"{sum(outcome.faults.values())} faults, {outcome.seconds:.0f} s"
    )


def _end_early(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.queues", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument(
        "--minutes", type=float, default=20.0, help="how long records are written and faults come"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    # The checkout's own code, not what the environment has installed; its processes run the same.
    sys.path[:0] = [str(CHECKOUT / "broker"), str(CHECKOUT)]
    os.environ["PYTHONPATH"] = f"{CHECKOUT / 'broker'}{os.pathsep}{CHECKOUT}"
    isolation.enter("tests.queues")
    signal.signal(signal.SIGTERM, _end_early)
    sys.exit(main(given.records, given.seed, given.minutes))
