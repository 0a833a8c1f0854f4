"""Does a longer log slow the broker down? Writes a gigabyte after another to one partition and times each.

In the first and the last quarter, each gigabyte is followed by one to a fresh topic. If both become slower, the machine
is the cause (a disk that fills its cache, a neighbour). The broker is the cause only of what the long log loses against
the fresh one. Then the oldest gigabyte is read again, to see whether old segments are found as fast as new ones. Last,
the broker is restarted. The log lies on a disk, in /var/tmp unless named, because that much memory is rare.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from dataclasses import dataclass

from bench import tools
from bench.memory import log_bytes, touched
from bench.peers import Peer, fresh_topic, ours, storage, usage
from tests.support.peers import topic_creator

RECORD_BYTES = 1000
RECORDS_PER_GIGABYTE = 1_000_000
SPARE_GIGABYTES = 3  # the fresh topics, one at a time, and what is not deleted yet
LOSS_MAX = 0.05


@dataclass(frozen=True, slots=True)
class Gigabyte:
    """One gigabyte appended to the long log and, in the first and last quarter, one to a fresh topic."""

    number: int
    rate: float  # MB/s
    cpu_seconds: float
    resident_megabytes: float
    fresh_rate: float | None
    fresh_cpu_seconds: float | None


def grow(*, gigabytes: int, disk: str, is_json: bool) -> int:
    """Print a line per gigabyte, then what the last quarter lost against the first; 2 where the disk is too small."""
    free = shutil.disk_usage(disk).free / 1e9
    if free < gigabytes + SPARE_GIGABYTES:
        print(
            f"{disk} has {free:.0f} GB free, {gigabytes + SPARE_GIGABYTES} are needed: name another by --disk"
        )
        return 2
    quarter = max(gigabytes // 4, 1)
    found: list[Gigabyte] = []
    with storage(disk) as folder:
        broker = ours(folder)
        broker.start()
        try:
            with fresh_topic(broker, 1) as warming:
                _append(broker, warming)
            topic = topic_creator(broker.bootstrap)(1)
            for number in range(1, gigabytes + 1):
                is_compared = number <= quarter or number > gigabytes - quarter
                found.append(_gigabyte(broker, topic, number, is_compared=is_compared))
                _print_gigabyte(found[-1], is_json=is_json)
            oldest = _read(broker, topic)
            with fresh_topic(broker, 1) as young:
                _append(broker, young)
                youngest = _read(broker, young)
            began = time.perf_counter()
            broker.stop()
            stop_seconds = time.perf_counter() - began
            start_seconds = broker.start()
        finally:
            broker.close()
    _conclude(
        found,
        quarter,
        is_json=is_json,
        others={
            "reading the oldest gigabyte, MB/s": round(oldest, 1),
            "reading a fresh one, MB/s": round(youngest, 1),
            "controlled stop, s": round(stop_seconds, 3),
            "start after it, s": round(start_seconds, 3),
        },
    )
    return 0


def _append(broker: Peer, topic: str) -> tools.Run:
    with touched(log_bytes(records=RECORDS_PER_GIGABYTE, record_bytes=RECORD_BYTES)):
        return tools.produce(broker, topic, records=RECORDS_PER_GIGABYTE, record_bytes=RECORD_BYTES)


def _gigabyte(broker: Peer, topic: str, number: int, *, is_compared: bool) -> Gigabyte:
    sent = _append(broker, topic)
    resident = usage(broker).resident_bytes / 1e6
    fresh = None
    if is_compared:
        with fresh_topic(broker, 1) as young:
            fresh = _append(broker, young)
    return Gigabyte(
        number=number,
        rate=sent.megabytes_per_second,
        cpu_seconds=sent.cpu_seconds_per_gigabyte,
        resident_megabytes=resident,
        fresh_rate=fresh.megabytes_per_second if fresh else None,
        fresh_cpu_seconds=fresh.cpu_seconds_per_gigabyte if fresh else None,
    )


def _read(broker: Peer, topic: str) -> float:
    """MB/s of reading a topic's first gigabyte."""
    got = tools.consume(broker, topic, records=RECORDS_PER_GIGABYTE, record_bytes=RECORD_BYTES)
    return got.megabytes_per_second


def _print_gigabyte(one: Gigabyte, *, is_json: bool) -> None:
    if is_json:
        line = {
            "gigabyte": one.number,
            "MB/s": round(one.rate, 1),
            "CPU s/GB": round(one.cpu_seconds, 3),
            "resident MB": round(one.resident_megabytes, 1),
            "fresh topic MB/s": round(one.fresh_rate, 1) if one.fresh_rate is not None else None,
        }
        print(json.dumps(line), flush=True)
        return
    beside = f"; a fresh topic {one.fresh_rate:6.1f} MB/s" if one.fresh_rate is not None else ""
    print(
        f"gigabyte {one.number:3}: {one.rate:6.1f} MB/s, {one.cpu_seconds:5.2f} s of CPU, "
        f"{one.resident_megabytes:5.1f} MB resident{beside}",
        flush=True,
    )


def _conclude(found: list[Gigabyte], quarter: int, *, is_json: bool, others: dict[str, float]) -> None:
    first, last = found[:quarter], found[-quarter:]

    def against_fresh(part: list[Gigabyte]) -> float:
        return statistics.median(one.rate / one.fresh_rate for one in part if one.fresh_rate is not None)

    change = {
        "question": "growth",
        "gigabytes": len(found),
        "rate, last / first quarter": round(
            statistics.median(one.rate for one in last) / statistics.median(one.rate for one in first), 3
        ),
        "the same against a fresh topic": round(against_fresh(last) / against_fresh(first), 3),
        "CPU, last / first quarter": round(
            statistics.median(one.cpu_seconds for one in last)
            / statistics.median(one.cpu_seconds for one in first),
            3,
        ),
        **others,
        "goal": f"≤ {LOSS_MAX:.0%} slower",
    }
    is_met = against_fresh(last) >= against_fresh(first) * (1 - LOSS_MAX)
    change["met"] = is_met
    if is_json:
        print(json.dumps(change, ensure_ascii=False))
    else:
        for name, value in change.items():
            print(f"{name}: {value}")
