"""A work queue of 100 B records, ours beside Apache Kafka 4.4.0: rate and processor with one member and with eight.

    python -m bench.queues [RECORDS] [ROUNDS]

Members are those of Kafka's own `kafka-share-consumer-perf-test.sh`, in one JVM. Each round fills a topic of one
partition on both, and the two take turns to be first. Heartbeats come ten times a second, so that members get their
assignment at once. Prints medians and the ratios ours / Kafka's.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import uuid
from pathlib import Path
from typing import Final

from bench.peers import SETTINGS, Peer, compiled, storage, usage
from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.client.results import ConfigChange, ResourceType
from tests.support.broker_process import Broker
from tests.support.java import KAFKA_NEWEST_VERSION, run_kafka_tool
from tests.support.kafka_peer import KafkaPeer

RECORDS: Final = 1_000_000
ROUNDS: Final = 3
RECORD_BYTES: Final = 100
MEMBERS: Final = (1, 8)
_QUICK_HEARTBEATS: Final = {
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
}
_TOOL: Final = "org.apache.kafka.tools.ShareConsumerPerformance"
_SEND_MANY_MAX: Final = 10_000


async def fill(bootstrap: str, name: str, records: int) -> None:
    """A topic with these records, and a share group of its name that begins with the first."""
    async with Client(bootstrap) as client:
        await Admin(client).topics.create(name, partitions=1)
        earliest = ConfigChange("share.auto.offset.reset", "earliest")
        await Admin(client).configs.alter(ResourceType.GROUP, name, [earliest])
        async with Producer(client) as producer:
            for begin in range(0, records, _SEND_MANY_MAX):
                await producer.send_many(name, [b"x" * RECORD_BYTES] * min(_SEND_MANY_MAX, records - begin))


def consume(peer: Peer, name: str, records: int, members: int) -> tuple[float, float]:
    """Records a second, and microseconds of the broker's processor for each record."""
    before = usage(peer).cpu_seconds
    done = run_kafka_tool(
        _TOOL,
        "--bootstrap-server", peer.bootstrap, "--topic", name, "--group", name, "--num-records", str(records),
        "--threads", str(members), "--timeout", "60000", "--hide-header",
        version=KAFKA_NEWEST_VERSION,
        seconds_max=600,
    )  # fmt: skip
    cpu_seconds = usage(peer).cpu_seconds - before
    fields = [field.strip() for field in done.stdout.strip().splitlines()[-1].split(",")]
    print(peer.name, members, fields, f"{cpu_seconds:.2f} s of processor", file=sys.stderr)
    return records / float(fields[-1]) * 1000, cpu_seconds / records * 1e6


def main(records: int, rounds: int) -> None:
    compiled()
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with storage(None) as folder:
        peers: list[Peer] = [
            Broker(Path(folder) / "odradek", settings=SETTINGS | _QUICK_HEARTBEATS),
            KafkaPeer(
                Path(folder) / "kafka",
                settings=SETTINGS | _QUICK_HEARTBEATS,
                quick=False,
                version=KAFKA_NEWEST_VERSION,
            ),
        ]
        try:
            for peer in peers:
                peer.start()
            for number in range(rounds + 1):
                for members in MEMBERS:
                    for peer in peers if number % 2 else peers[::-1]:
                        name = f"queue-{uuid.uuid4().hex[:8]}"
                        asyncio.run(fill(peer.bootstrap, name, records))
                        taken = consume(peer, name, records, members)
                        if number:
                            found.setdefault((peer.name, members), []).append(taken)
        finally:
            for peer in peers:
                peer.close()
    for members in MEMBERS:
        ours, others = (
            [statistics.median(column) for column in zip(*found[name, members], strict=True)]
            for name in ("odradek", "kafka")
        )
        questions = (("rate", "records/s"), ("processor", "µs/record"))
        for (what, unit), mine, other in zip(questions, ours, others, strict=True):
            print(f"{members} members, {what}: {mine:,.2f} and {other:,.2f} {unit}, {mine / other:.2f} x")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(*given, *(RECORDS, ROUNDS)[len(given) :]))
