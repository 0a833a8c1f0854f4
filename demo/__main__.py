"""`python -m demo`, which `make demo` calls: a broker starts, is written to and read from, dies, and has lost nothing.

Then a day of events becomes a table, and its driver dies too. Ends with 0 when all went as described, so it is a test
too. Left out: Spark where PySpark or Java is not there; and everything that takes longer than a visitor stays.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from demo import copy, table
from demo.clients import Writer, read
from demo.stage import Broker, DemoFailedError, act, command_line, explain, quote, run

ORDERS = 30_000
READ_FIRST = 20_000
_PAGE = Path(__file__).resolve().parent.parent / "build" / "visits.html"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument(
        "--page", type=Path, default=_PAGE, metavar="FILE", help="where the page of the table's runs stays"
    )
    arguments = parser.parse_args()
    began = time.perf_counter()
    explain("Odradek speaks Apache Kafka's protocol. Here it meets clients that know nothing of it.")
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as folder:
        broker = Broker(Path(folder))
        try:
            _starts(broker)
            writer = _writes(broker)
            seen = _reads(broker)
            _dies(broker, writer)
            _counts(broker, writer, seen)
            _travels(broker)
            copy.show(broker, folder=Path(folder) / "west", orders=2 * ORDERS)
            if not arguments.without_spark:
                _fills_a_table(broker, arguments.page.absolute())
            _stops(broker)
        except DemoFailedError as error:
            print(f"\nThe tour ends early: {error}", file=sys.stderr)
            return 1
        finally:
            broker.close()
    print()
    left = "nothing but the page" if table.is_here() and not arguments.without_spark else "nothing"
    explain(
        f"That was all, in {time.perf_counter() - began:.0f} s; {left} is left of it. Your own broker: make run"
    )
    return 0


def _starts(broker: Broker) -> None:
    act("A broker in the blink of an eye")
    command_line("odradek start --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data …")
    took = broker.start()
    explain(
        f"Ready in {took * 1000:.0f} ms at {broker.listen} with {broker.resident_megabytes():.0f} MB of memory. "
        "No ZooKeeper, no JVM, no settings."
    )
    os.environ["ODRADEK_BOOTSTRAP"] = broker.listen
    run(["topics", "create", "orders", "--partitions", "3"])


def _writes(broker: Broker) -> Writer:
    act("confluent-kafka writes")
    writer = Writer(broker.listen)
    began = time.perf_counter()
    writer.write("orders", range(ORDERS))
    writer.flush()
    took = time.perf_counter() - began
    _expect(
        writer.acknowledged == ORDERS, f"{writer.acknowledged} of {ORDERS} acknowledged: {writer.failed[:3]}"
    )
    explain(
        f"{ORDERS:,} orders, idempotent and lz4, all acknowledged after {took:.2f} s. The last of partition 0:"
    )
    run(["consume", "orders", "--partition", "0", "--offset", "-2", "--keys"])
    return writer


def _reads(broker: Broker) -> list[int]:
    act("kafka-python reads, in a group")
    seen = read(broker.listen, "orders", group="shipping", count_max=READ_FIRST)
    _expect(len(seen) == READ_FIRST, f"{len(seen)} orders came")
    explain(
        f"It took {len(seen):,} orders, committed its place and left. The broker knows how far behind the group is:"
    )
    run(["groups", "describe", "shipping"])
    explain("So does Prometheus:")
    command_line(f"curl -s http://{broker.admin}/metrics | grep lag_messages")
    quote("\n".join(line for line in broker.metrics() if line.startswith("odradek_group_lag_messages")))
    return seen


def _dies(broker: Broker, writer: Writer) -> None:
    act("kill -9, in the middle of writing")

    def strike(count: int) -> None:
        if count == ORDERS // 2:
            writer_knew = writer.acknowledged - ORDERS
            command_line(f"kill -9 {broker.pid}")
            broker.end(signal.SIGKILL)
            took = broker.start()
            explain(
                f"{writer_knew:,} more orders were acknowledged by then. Started again, ready in {took * 1000:.0f} ms; "
                "of its files it checked what was not yet known to be on the disk:"
            )
            opened = [line for line in broker.log().splitlines() if "logs opened" in line]
            quote(opened[-1].partition(f"{broker.data}: ")[2])

    writer.write("orders", range(ORDERS, 2 * ORDERS), between=strike)
    writer.flush()
    _expect(writer.acknowledged == 2 * ORDERS, f"{writer.acknowledged} acknowledged: {writer.failed[:3]}")
    explain(f"The producer only saw a lost connection: all of its {2 * ORDERS:,} orders are acknowledged.")


def _counts(broker: Broker, writer: Writer, seen: list[int]) -> None:
    act("Is every order there, and once?")
    rest = read(broker.listen, "orders", group="shipping")
    found = Counter([*seen, *rest])
    missing = 2 * ORDERS - len(found)
    doubled = sum(count - 1 for count in found.values())
    explain(
        f"The group continued where it was and got {len(rest):,} more. Of {writer.acknowledged:,} acknowledged orders "
        f"{missing} are missing and {doubled} came twice."
    )
    _expect(missing == 0 and doubled == 0, "orders were lost or doubled")


def _travels(broker: Broker) -> None:
    act("Back in time")
    explain(
        "A group's place can be moved: to an offset, to a time, or back by a few. Without --execute it is only shown:"
    )
    run(["groups", "reset-offsets", "shipping", "--topic", "orders", "--shift-by", "-100"])
    explain("The files are Kafka's own, byte for byte, and can be looked into while the broker runs:")
    run(["dump-log", str(broker.data / "orders-0"), "--verify-only"], shortened=broker.data)


def _fills_a_table(broker: Broker, page: Path) -> None:
    if not table.is_here():
        act("Into a table")
        explain("PySpark and a Java are not installed here, so this part is left out.")
        return
    table.show(broker, page)


def _stops(broker: Broker) -> None:
    act("And it stops")
    command_line(f"kill {broker.pid}")
    took = broker.end(signal.SIGTERM)
    explain(f"Everything is on the disk and the broker has ended, after {took * 1000:.0f} ms.")


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise DemoFailedError(otherwise)


if __name__ == "__main__":
    sys.exit(main())
