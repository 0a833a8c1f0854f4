"""What one core of a broker carries: each broker on the same single core, the load on the others, in turns.

The load is `raw_load`: requests that were made once. So the figure is the broker's, and not that of Kafka's clients.
After each produced load everything is read, for the figure of reading, and read again, compared batch by batch with
what was sent. The two brokers run at once; one is idle while the other is asked.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers import SETTINGS, Peer, compiled, earlier, fresh_topic, ours, storage, usage
from bench.raw_load import Done, Load, RequestRefused, batch_of, read
from bench.rounds import say
from tests.support.broker_process import CHECKOUT
from tests.support.kafka_peer import KafkaPeer
from tests.support.polling import wait_until

# A load that has its core for more than this share of the time may be the limit itself.
_LOAD_SHARE_MAX: Final = 0.9
_GIGABYTE: Final = 1e9
OURS: Final = "odradek"


class Shape(NamedTuple):
    """What is produced: batches of so many records of so many bytes to so many partitions.

    `is_together`: a request has a batch for each partition, as a producer that does not wait sends them.
    """

    records: int
    record_bytes: int
    partitions: int
    in_flight: int
    is_together: bool = False
    is_read: bool = False


SHAPES: Final = {
    "tiny, 1 partition": Shape(1, 100, 1, 5, is_together=True),
    "tiny, 6 partitions": Shape(1, 100, 6, 5, is_together=True),
    "tiny, 60 partitions": Shape(1, 100, 60, 5, is_together=True),
    "100 B in 16 KB": Shape(150, 100, 6, 5, is_read=True),
    "1 KB in 16 KB": Shape(16, 1000, 6, 5, is_read=True),
    "1 KB in 128 KB": Shape(128, 1000, 6, 5, is_read=True),
}
# Connections of a load whose requests have all partitions: several producers.
_CONNECTIONS: Final = 4


class Measured(NamedTuple):
    """One load on one broker."""

    megabytes_per_second: float
    batches_per_second: float
    cpu_seconds_per_gigabyte: float
    load_share: float


Rows = dict[tuple[str, str], list[Measured]]


def measure_one_core(
    *,
    rounds: int,
    seconds: float,
    kafka_version: str,
    checkout: Path | None,
    disk: str | None,
    is_json: bool,
) -> int:
    """Print the medians of the rounds after a discarded one, and the ratios of ours to Kafka's.

    With `checkout` another checkout of ours takes Kafka's place, such as one with the compiled form.

    Raises AssertionError where a broker has not what it acknowledged.
    """
    compiled()
    cores = sorted(os.sched_getaffinity(0))
    assert len(cores) > 1, "there is one core only: nothing to part between a broker and its load"
    found: Rows = {}
    with storage(disk) as folder:
        peers: list[Peer] = [
            ours(folder),
            earlier(checkout)(folder)
            if checkout is not None
            else KafkaPeer(folder / "kafka", settings=SETTINGS, quick=False, version=kafka_version),
        ]
        try:
            for peer in peers:
                peer.start()
                _pin(peer.pid, cores[-1])
            for number in range(rounds + 1):
                for name, shape in SHAPES.items():
                    for peer in peers if number % 2 else reversed(peers):
                        rows = _measure(peer, shape, seconds=seconds, cores=cores[:-1])
                        for kind, one in rows.items():
                            say(f"round {number} of {rounds}: {kind} {name}, {peer.name}: {one}")
                            if number:
                                found.setdefault((f"{kind} {name}", peer.name), []).append(one)
        finally:
            for peer in peers:
                peer.close()
    print_medians(
        found, other=f"Kafka {kafka_version}" if checkout is None else str(checkout), is_json=is_json
    )
    return 0


def _measure(peer: Peer, shape: Shape, *, seconds: float, cores: Sequence[int]) -> dict[str, Measured]:
    with fresh_topic(peer, shape.partitions) as topic:
        load = Load(
            peer.bootstrap,
            topic,
            list(range(shape.partitions)),
            seconds,
            shape.record_bytes,
            shape.records,
            shape.in_flight,
            is_together=shape.is_together,
            connections=_CONNECTIONS if shape.is_together else 1,
            timestamp_ms=int(time.time() * 1000),
        )
        _await_leaders(load)
        rows = {}
        produced, rows["produce"] = _ask(peer, "produce", load, cores)
        if shape.is_read:
            read, rows["consume"] = _ask(peer, "consume", load, cores)
            assert read.batches == produced.batches, (
                f"{produced.batches} were acknowledged, {read.batches} read"
            )
        compared, _ = _ask(peer, "compare", load, cores)
        assert compared.batches == produced.batches, (
            f"{produced.batches} batches were acknowledged, {compared.batches} are there"
        )
    return rows


def _await_leaders(load: Load) -> None:
    """A new topic's partitions are answered for once their leader has made them. A fetch writes nothing."""

    def is_answered() -> bool:
        try:
            return read(load).batches == 0
        except RequestRefused:
            return False

    wait_until(f"{load.topic} has its leaders", is_answered)


def _ask(peer: Peer, act: str, load: Load, cores: Sequence[int]) -> tuple[Done, Measured]:
    before = usage(peer).cpu_seconds
    done = _run(act, load, cores)
    cpu_seconds = usage(peer).cpu_seconds - before
    gigabytes = done.batches * len(batch_of(load)) / _GIGABYTE
    return done, Measured(
        round(1000 * gigabytes / done.seconds, 1),
        round(done.batches / done.seconds),
        round(cpu_seconds / gigabytes, 3),
        round(done.cpu_seconds / done.seconds, 2),
    )


def _run(act: str, load: Load, cores: Sequence[int]) -> Done:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "broker"), str(CHECKOUT)))}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.raw_load", act, json.dumps(load._asdict())],
        env=environment,
        cwd=Path(CHECKOUT),
        stdout=subprocess.PIPE,
    ) as process:
        os.sched_setaffinity(process.pid, cores)
        out, _ = process.communicate()
    assert process.returncode == 0, "the load has failed"
    return Done(**json.loads(out))


def _pin(pid: int, core: int) -> None:
    """Threads that a process makes later have the core of those that make them."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})


def print_medians(found: Rows, *, other: str, is_json: bool) -> None:
    medians = {
        key: Measured(*(statistics.median(values) for values in zip(*rows, strict=True)))
        for key, rows in found.items()
    }
    (theirs_name,) = {broker for _, broker in medians} - {OURS}
    for name in dict.fromkeys(name for name, _ in medians):
        us, them = medians[name, OURS], medians[name, theirs_name]
        row = {
            "load": name,
            "MB/s": us.megabytes_per_second,
            f"MB/s of {other}": them.megabytes_per_second,
            "rate, ours / theirs": _ratio(us.batches_per_second, them.batches_per_second),
            "CPU for a GB, ours / theirs": _ratio(us.cpu_seconds_per_gigabyte, them.cpu_seconds_per_gigabyte),
            "the load is the limit of": [
                broker
                for broker, one in ((OURS, us), (theirs_name, them))
                if one.load_share > _LOAD_SHARE_MAX
            ],
        }
        print(json.dumps(row) if is_json else row, flush=True)


def _ratio(ours: float, theirs: float) -> float:
    return round(ours / theirs, 2)
