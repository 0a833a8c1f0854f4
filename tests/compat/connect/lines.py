"""Lines of a file through Kafka Connect into a topic and out into a file, while workers and brokers are killed.

A source connector reads the lines with exactly-once support: as committed, the topic holds each line once, in order.
A sink connector writes them to another file, at least once as Kafka promises: none is missing, some may be twice.

python -m tests.compat.connect.lines                two workers, three rounds of all faults
python -m tests.compat.connect.lines --rounds 20
python -m tests.compat.connect.lines --peer kafka   the same on Apache Kafka
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.compat.connect.workers import PATIENCE_SECONDS, Workers
from tests.compat.streams.exactly_once import Brokers, await_in_sync, running
from tests.support.plain_reads import all_records

TOPIC = "lines"
FAULTS = ("source's worker killed", "broker killed", "sink's worker killed", "broker stopped")
LINES_PER_SECOND = 100
_LINES_BETWEEN = 100

# Its batches stay as large as they are: a full one leaves lines behind which only further lines bring forward.
_SOURCE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "topic": TOPIC,
    "exactly.once.support": "required",
    "transaction.boundary": "poll",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "3",
}
_SINK = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "tasks.max": "1",
    "topics": TOPIC,
    "consumer.override.isolation.level": "read_committed",
}


class Lines:
    """A file that a thread appends numbered lines to, until it is stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[str] = []
        self._is_stopped = threading.Event()
        self._writing = threading.Thread(target=self._write, name="lines", daemon=True)
        path.touch()
        self._writing.start()

    def _write(self) -> None:
        with self.path.open("a") as file:
            while not self._is_stopped.wait(1 / LINES_PER_SECOND):
                line = f"line {len(self.written):07d}"
                file.write(f"{line}\n")
                file.flush()
                self.written.append(line)

    def stop(self) -> None:
        self._is_stopped.set()
        self._writing.join()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of the lines."""

    written: int
    in_topic: list[str]
    """What differs from the lines as written, in the topic as committed."""
    missing_in_file: list[str]
    twice_in_file: int

    @property
    def is_clean(self) -> bool:
        return self.written > 0 and not self.in_topic and not self.missing_in_file


def judged(written: Sequence[str], committed: Sequence[str], sunk: Sequence[str]) -> Verdict:
    """Compares the lines with the topic's records as committed, and with the lines of the sink's file."""
    differing = [
        f"{number}: {expected!r} is {found!r}"
        for number, (expected, found) in enumerate(zip(written, committed, strict=False))
        if expected != found
    ]
    if len(written) != len(committed):
        differing.append(f"{len(written)} lines are {len(committed)} records")
    return Verdict(
        written=len(written),
        in_topic=differing[:10],
        missing_in_file=sorted(set(written) - set(sunk))[:10],
        twice_in_file=len(sunk) - len(set(sunk)),
    )


def play(
    cluster: Brokers, workers: Workers, folder: Path, *, faults: Sequence[str], chance: random.Random
) -> Verdict:
    """The verdict after `faults`, each of FAULTS. The workers begin as an upgrade does: preparing, then enabled."""
    for worker in workers.all:
        workers.start(worker, "preparing")
    for worker in workers.all:
        worker.stop()
        workers.start(worker, "enabled")
    target = folder / "target"
    lines = Lines(folder / "source")
    try:
        workers.configure("source", _SOURCE | {"file": str(lines.path)})
        _await_sunk(workers, lines, target, is_configured=False)
        for kind in faults:
            _fault(cluster, workers, kind, chance)
            _await_sunk(workers, lines, target)
    finally:
        lines.stop()
    _await_end(workers, lines.written, target)
    records = all_records(cluster.bootstrap, TOPIC, **{"isolation.level": "read_committed"})
    return judged(lines.written, [value.decode() for _, value in records], target.read_text().splitlines())


def _fault(cluster: Brokers, workers: Workers, kind: str, chance: random.Random) -> None:
    """After it all run again, as do both connectors."""
    what, _, how = kind.partition(" ")
    if what == "broker":
        cluster.brokers[chance.choice(sorted(cluster.brokers))].restart(crash=how == "killed")
        await_in_sync(cluster.bootstrap)
    else:
        worker = workers.owner(what.removesuffix("'s"))
        worker.kill()
        if len(workers.all) > 1:
            # The other worker takes the task over before this one returns.
            workers.await_running("source")
        workers.start(worker, "enabled")
    workers.await_running("source")
    workers.await_running("sink")


def _await_sunk(workers: Workers, lines: Lines, target: Path, *, is_configured: bool = True) -> None:
    """Until lines that were not written yet have arrived in the sink's file."""
    if not is_configured:
        workers.configure("sink", _SINK | {"file": str(target)})
    wanted = f"line {len(lines.written) + _LINES_BETWEEN:07d}\n"
    workers.await_answer(
        f"{wanted.strip()} is in {target}", lambda: target.exists() and wanted in target.read_text()
    )


def _await_end(workers: Workers, written: Sequence[str], target: Path) -> None:
    """Until the last line has arrived, and the sink has nothing more to write."""
    workers.await_answer("all lines are sunk", lambda: f"{written[-1]}\n" in target.read_text())
    deadline = time.monotonic() + PATIENCE_SECONDS
    while set(written) - set(target.read_text().splitlines()):
        if time.monotonic() > deadline:
            return  # the verdict names what is missing
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="of all faults (default: 3)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--peer", choices=["odradek", "kafka"], default="odradek")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where outputs and logs stay (default: removed)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-connect-") as made:
        folder = arguments.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with running(folder, peer=arguments.peer) as cluster:
            workers = Workers(folder, cluster.bootstrap, count=arguments.workers)
            try:
                verdict = play(
                    cluster,
                    workers,
                    folder,
                    faults=FAULTS * arguments.rounds,
                    chance=random.Random(arguments.seed),
                )
            finally:
                workers.close()
    print(
        f"{arguments.rounds * len(FAULTS)} faults on {arguments.peer}, seed {arguments.seed}, "
        f"{time.monotonic() - began:.0f} s: {verdict}"
    )
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
