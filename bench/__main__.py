"""`python -m bench`: Odradek against Apache Kafka 4.1.1, in one interleaved run on one machine.

python -m bench --rounds 5             everything, as `make bench` does it
python -m bench --quick                one round of small sizes
python -m bench --only tiny latency    some questions
python -m bench --disk /var/tmp        logs on a disk instead of in memory
python -m bench growth --gigabytes 20  does a longer log slow it down?
python -m bench spark                  a Spark job writes and reads a million records
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

import psutil


def machine(disk: str | None, rounds: int) -> str:
    """What the numbers were measured on, in one line."""
    model = "an unnamed processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = psutil.virtual_memory().total / 2**30
    place = f"logs below {disk}" if disk else "logs in memory (/dev/shm)"
    return (
        f"{psutil.cpu_count()} cores of {model}, {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}; {place}; medians of {rounds} interleaved rounds after a discarded one."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", nargs="?", choices=["compare", "growth", "spark"], default="compare")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of small sizes")
    parser.add_argument("--only", nargs="*", default=[], help="parts of: throughput, tiny, latency, start")
    parser.add_argument("--disk", help="folder for the logs instead of memory")
    parser.add_argument("--gigabytes", type=int, default=20)
    parser.add_argument("--records", type=int, default=1_000_000)
    arguments = parser.parse_args()
    if arguments.program == "growth":
        from bench.growth import grow

        return grow(gigabytes=arguments.gigabytes, disk=arguments.disk)
    if arguments.program == "spark":
        from bench.spark import run_job

        return run_job(records=arguments.records)
    from bench.questions import FULL, QUICK, compare, print_all

    rounds = 1 if arguments.quick else arguments.rounds
    sizes = QUICK if arguments.quick else FULL
    answers = compare(rounds=rounds, sizes=sizes, disk=arguments.disk, only=arguments.only)
    print_all(answers, machine(arguments.disk, rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
