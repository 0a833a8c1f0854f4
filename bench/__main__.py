"""`python -m bench`: Odradek against Apache Kafka 4.1.1, in one interleaved run on one machine.

The programs, and what each measures:

    python -m bench everything             what `make bench` does: all of the below, about an hour
    python -m bench --rounds 5             the comparison: medians of five rounds after a discarded one
    python -m bench --quick                one round of small sizes, about three minutes
    python -m bench --only tiny latency    some questions
    python -m bench --only tls             produce and consume over TLS
    python -m bench --disk /var/tmp        logs on a disk instead of in memory
    python -m bench --earlier ../before    beside another checkout, in turns of seconds
    python -m bench --output json          for programs
    python -m bench cluster --quick        three brokers against three, records with three replicas
    python -m bench takeover               a dead controller's, a dead broker's 10,000 partitions on ZooKeeper
    python -m bench restarts --rounds 3    what a producer notices of brokers that are restarted in turn
    python -m bench machines --processes 1 2   does a machine of several brokers take as much more?
    python -m bench growth --gigabytes 20  does a longer log slow it down?
    python -m bench command-line           produce and consume beside kcat, on the same broker and files
    python -m bench clients --rounds 5     our Python clients beside kafka-python, aiokafka and confluent-kafka
    python -m bench paper --rounds 5       the experiments of the paper of 2011, beside what it published
    python -m bench rights --rounds 15     what ACLs and quotas cost a broker that has them
    python -m bench rights --instructions  the same in instructions outside the kernel
    python -m bench mirror --rounds 3      a mirror's CPU for a gigabyte, beside MirrorMaker 2
    python -m bench operator               1,000 new Topics on a real API server, and an operator at rest
    python -m bench spark                  a Spark job writes, copies and reads a million records
    python -m bench spark-source           format("odradek") beside Spark's Kafka connector
    python -m bench spark-load             a topic into Parquet by `odradek-pipeline load`, and without it
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.questions import Answers

DISK = "/var/tmp"


def main() -> int:
    arguments = _parsed()
    # Installed brokers start from compiled modules; where this is set, ours would compile its own at every start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    match arguments.program:
        case "growth":
            return _growth(arguments)
        case "spark":
            return _spark(arguments)
        case "spark-source":
            return _spark_source(arguments)
        case "spark-load":
            return _spark_load(arguments)
        case "cluster":
            return _cluster(arguments, rounds=arguments.rounds)
        case "takeover":
            return _takeover(arguments)
        case "restarts":
            return _restarts(arguments)
        case "machines":
            return _machines(arguments)
        case "one-core":
            return _one_core(arguments)
        case "console":
            return _console(arguments)
        case "command-line":
            return _command_line(arguments)
        case "clients":
            return _clients(arguments)
        case "paper":
            return _paper(arguments)
        case "rights":
            return _rights(arguments)
        case "mirror":
            return _mirror(arguments)
        case "operator":
            return _operator(arguments)
        case "compare":
            return _compare(arguments, rounds=arguments.rounds, disk=arguments.disk)
        case _:
            codes = [
                _compare(arguments, rounds=arguments.rounds, disk=None),
                _compare(arguments, rounds=1, disk=arguments.disk or DISK),
                _cluster(arguments, rounds=1),
                _takeover(arguments),
                _restarts(arguments),
                _command_line(arguments),
                _clients(arguments),
                _paper(arguments),
                _rights(arguments),
                _spark(arguments),
                _spark_source(arguments),
                _spark_load(arguments),
                _growth(arguments),
            ]
            return max(codes)


def _parsed() -> argparse.Namespace:
    from bench.cluster_rounds import CLUSTER_PARTS
    from bench.rounds import KAFKA_PARTS, PARTS

    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    programs = ["compare", "cluster", "takeover", "restarts", "growth", "command-line", "operator", "spark"]
    programs += [
        "machines",
        "one-core",
        "console",
        "clients",
        "paper",
        "mirror",
        "rights",
        "spark-source",
        "spark-load",
        "everything",
    ]
    parser.add_argument("program", nargs="?", choices=programs, default="compare")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument("--quick", action="store_true", help="one round of small sizes; a short growth")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        choices={*PARTS, *CLUSTER_PARTS},
        metavar="PART",
        help=f"of {', '.join(PARTS)}; with `cluster` of {', '.join(CLUSTER_PARTS)}",
    )
    parser.add_argument("--disk", help=f"folder for the logs instead of memory; `everything` takes {DISK}")
    parser.add_argument(
        "--pin", action="store_true", help="both brokers on one half of the cores, clients on the other"
    )
    parser.add_argument(
        "--minutes-max", type=float, default=30, help="begin no further round after that (default: 30)"
    )
    parser.add_argument("--gigabytes", type=int, default=20, help="how far the log grows (default: 20)")
    parser.add_argument(
        "--records", type=int, default=1_000_000, help="of the Spark jobs (default: 1,000,000)"
    )
    parser.add_argument(
        "--partitions",
        type=int,
        default=10_000,
        help="of `takeover` and `console`, in topics of 100 (default: 10,000)",
    )
    parser.add_argument("--groups", type=int, default=1_000, help="of `console` (default: 1,000)")
    parser.add_argument(
        "--minutes", type=float, default=2, help="of `console`: how long a page stays open (default: 2)"
    )
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2], help="of `machines` (default: 1 2)"
    )
    parser.add_argument(
        "--kafka-version", metavar="VERSION", help="of `one-core`, such as 4.4.0 (default: the usual one)"
    )
    parser.add_argument("--instructions", action="store_true", help="rights: what valgrind counts, not time")
    parser.add_argument(
        "--earlier", type=Path, metavar="CHECKOUT", help="beside another checkout of Odradek instead of Kafka"
    )
    parser.add_argument("--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.gigabytes < 1 or arguments.records < 1:
        parser.error("--rounds, --gigabytes and --records are at least 1")
    if arguments.earlier is not None:
        if arguments.program not in ("compare", "one-core"):
            parser.error(f"--earlier: {arguments.program} knows no earlier checkout; leave the program out")
        if refused := set(arguments.only) - ({*PARTS} - {*KAFKA_PARTS}):
            parser.error(f"--earlier: {', '.join(sorted(refused))} cannot be asked of an earlier checkout")
        if not (arguments.earlier / "broker" / "odradek").is_dir():
            parser.error(
                f"--earlier: {arguments.earlier} is no checkout of Odradek: it has no broker/odradek"
            )
        arguments.earlier = arguments.earlier.resolve()
    if arguments.quick:
        arguments.rounds, arguments.gigabytes = 1, min(arguments.gigabytes, 4)
    return arguments


def _compare(arguments: argparse.Namespace, *, rounds: int, disk: str | None) -> int:
    from bench.rounds import FULL, QUICK, SHORT, compare

    sizes = QUICK if arguments.quick else FULL
    answers, done = compare(
        rounds=rounds,
        sizes=sizes if arguments.earlier is None else SHORT,
        disk=disk,
        only=arguments.only,
        is_pinned=arguments.pin,
        minutes_max=arguments.minutes_max,
        checkout=arguments.earlier,
    )
    return _print(arguments, answers, disk=disk, rounds=done, is_pinned=arguments.pin)


def _print(
    arguments: argparse.Namespace,
    answers: Answers,
    *,
    disk: str | None,
    rounds: int,
    is_pinned: bool = False,
) -> int:
    """Print the answers as --output asks. Returns 0."""
    from bench import report

    described = report.machine(disk=disk, rounds=rounds, is_pinned=is_pinned)
    show = report.document if arguments.output == "json" else report.table
    print(show(answers.listed(), described=described), end="\n\n", flush=True)
    return 0


def _cluster(arguments: argparse.Namespace, *, rounds: int) -> int:
    from bench.cluster_rounds import FULL, QUICK, compare_clusters

    answers, done = compare_clusters(
        rounds=rounds,
        sizes=QUICK if arguments.quick else FULL,
        disk=arguments.disk,
        only=arguments.only,
        minutes_max=arguments.minutes_max,
    )
    return _print(arguments, answers, disk=arguments.disk, rounds=done)


def _takeover(arguments: argparse.Namespace) -> int:
    from bench.takeover import take_over

    return take_over(partitions=arguments.partitions, disk=arguments.disk, is_json=arguments.output == "json")


def _restarts(arguments: argparse.Namespace) -> int:
    from bench.restarts import restart_in_turn

    return restart_in_turn(rounds=arguments.rounds, disk=arguments.disk, is_json=arguments.output == "json")


def _machines(arguments: argparse.Namespace) -> int:
    from bench.machines import measure_machines

    return measure_machines(
        processes=arguments.processes,
        rounds=1 if arguments.quick else arguments.rounds,
        seconds=2.0 if arguments.quick else 10.0,
        disk=arguments.disk,
        is_json=arguments.output == "json",
    )


def _one_core(arguments: argparse.Namespace) -> int:
    from bench.one_core import measure_one_core
    from tests.support.java import KAFKA_VERSION

    return measure_one_core(
        rounds=arguments.rounds,
        seconds=1.0 if arguments.quick else 4.0,
        kafka_version=arguments.kafka_version or KAFKA_VERSION,
        checkout=arguments.earlier,
        disk=arguments.disk,
        is_json=arguments.output == "json",
    )


def _console(arguments: argparse.Namespace) -> int:
    from bench.console import measure_console

    return measure_console(
        partitions=arguments.partitions,
        groups=arguments.groups,
        minutes=0.2 if arguments.quick else arguments.minutes,
        is_json=arguments.output == "json",
    )


def _command_line(arguments: argparse.Namespace) -> int:
    from bench.command_line import FULL, QUICK, compare_command_lines

    sizes = QUICK if arguments.quick else FULL
    answers = compare_command_lines(rounds=arguments.rounds, sizes=sizes, disk=arguments.disk)
    return _print(arguments, answers, disk=arguments.disk, rounds=arguments.rounds)


def _clients(arguments: argparse.Namespace) -> int:
    from bench.python_clients import compare_clients

    return compare_clients(
        rounds=arguments.rounds,
        records=20_000 if arguments.quick else 200_000,
        disk=arguments.disk,
        is_json=arguments.output == "json",
    )


def _paper(arguments: argparse.Namespace) -> int:
    from bench.paper import repeat_paper

    return repeat_paper(
        rounds=arguments.rounds,
        messages=5_000 if arguments.quick else 100_000,
        disk=arguments.disk,
        is_json=arguments.output == "json",
    )


def _rights(arguments: argparse.Namespace) -> int:
    if arguments.instructions:
        from bench.rights_instructions import count_instructions

        return count_instructions()
    from bench.rights import compare_rights

    return compare_rights(rounds=arguments.rounds, disk=arguments.disk)


def _mirror(arguments: argparse.Namespace) -> int:
    from bench.mirror import compare_mirrors

    megabytes = 50 if arguments.quick else 300
    return compare_mirrors(rounds=arguments.rounds, megabytes=megabytes, disk=arguments.disk)


def _operator(arguments: argparse.Namespace) -> int:
    from bench.operator_topics import measure_operator

    return measure_operator(disk=arguments.disk, is_json=arguments.output == "json")


def _growth(arguments: argparse.Namespace) -> int:
    from bench.growth import grow

    return grow(
        gigabytes=arguments.gigabytes, disk=arguments.disk or DISK, is_json=arguments.output == "json"
    )


def _spark(arguments: argparse.Namespace) -> int:
    from bench.spark import run_job

    return run_job(records=arguments.records, is_json=arguments.output == "json")


def _spark_source(arguments: argparse.Namespace) -> int:
    from bench.spark_source import run_reads

    return run_reads(rounds=arguments.rounds, records=arguments.records)


def _spark_load(arguments: argparse.Namespace) -> int:
    from bench.spark_load import run_loads

    return run_loads(rounds=arguments.rounds, records=arguments.records)


if __name__ == "__main__":
    sys.exit(main())
