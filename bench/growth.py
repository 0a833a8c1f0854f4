"""Does a longer log slow the broker down? Writes a gigabyte after another to one topic and times each.

The log lies on a disk by default in /var/tmp, because that much memory is rare. Reading the first gigabyte again at the
end shows whether old segments are found as fast as new ones.
"""

from __future__ import annotations

import json
import statistics
import sys

from bench import tools
from bench.peers import fresh_topic, ours, storage, usage

RECORD_BYTES = 1000
RECORDS_PER_GIGABYTE = 1_000_000
DEFAULT_DISK = "/var/tmp"


def grow(*, gigabytes: int, disk: str | None) -> int:
    """One JSON line per gigabyte, then one that compares the first quarter with the last."""
    rates: list[float] = []
    cpu: list[float] = []
    with storage(disk or DEFAULT_DISK) as folder:
        broker = ours(folder)
        broker.start()
        try:
            with fresh_topic(broker, 1) as topic:
                tools.produce(broker, topic, records=RECORDS_PER_GIGABYTE // 5, record_bytes=RECORD_BYTES)
                for number in range(1, gigabytes + 1):
                    sent = tools.produce(
                        broker, topic, records=RECORDS_PER_GIGABYTE, record_bytes=RECORD_BYTES
                    )
                    rates.append(sent.megabytes_per_second)
                    cpu.append(sent.cpu_seconds_per_gigabyte)
                    line = {
                        "gigabyte": number,
                        "MB/s": round(sent.megabytes_per_second, 1),
                        "broker CPU s/GB": round(sent.cpu_seconds_per_gigabyte, 3),
                        "resident MB": round(usage(broker).resident_bytes / 1e6, 1),
                    }
                    print(json.dumps(line), flush=True)
                got = tools.consume(broker, topic, records=RECORDS_PER_GIGABYTE, record_bytes=RECORD_BYTES)
                print(json.dumps({"the oldest gigabyte read, MB/s": round(got.megabytes_per_second, 1)}))
            started = broker.stop()
            print(f"controlled stop ended with {started}", file=sys.stderr)
        finally:
            broker.close()
    quarter = max(len(rates) // 4, 1)
    change = {
        "question": "growth",
        "gigabytes": gigabytes,
        "rate, last / first quarter": round(
            statistics.median(rates[-quarter:]) / statistics.median(rates[:quarter]), 3
        ),
        "CPU, last / first quarter": round(
            statistics.median(cpu[-quarter:]) / statistics.median(cpu[:quarter]), 3
        ),
        "goal": "≤ 5 % slower",
    }
    print(json.dumps(change, ensure_ascii=False))
    return 0
