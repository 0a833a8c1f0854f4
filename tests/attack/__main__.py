"""`python -m tests.attack`: what each attack of a stranger costs Odradek and Apache Kafka, on this machine now.

A row is an attack: the most memory beyond that of the idle broker, and the longest wait of an honest producer. Kafka
runs with a heap of 1 GB. `python -m tests.attack announce flood` runs these alone.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import psutil

from tests.attack.arena import wait_for_answers, watched
from tests.attack.attacks import ATTACKS, local
from tests.support.broker_process import Broker
from tests.support.honest_client import TOPIC, HonestClient
from tests.support.kafka_peer import KafkaPeer
from tests.support.plain_client import PlainClient


def measure(broker: Broker | KafkaPeer, name: str) -> str:
    """One cell: megabytes and milliseconds."""
    before = psutil.Process(broker.pid).memory_info().rss
    with watched(broker.pid) as memory, HonestClient(lambda: PlainClient(broker.port)) as honest:
        wait_for_answers(honest, 20)
        honest.waits_seconds.clear()
        held = ATTACKS[name](local(broker.port))
        wait_for_answers(honest, 20)
        for one in held:
            one.close()
    if not honest.is_served:
        return f"{(memory.peak_bytes - before) / 1e6:.0f} MB, the honest client was cut off"
    return f"{(memory.peak_bytes - before) / 1e6:.0f} MB, {honest.longest_wait_seconds * 1000:.0f} ms"


def main(names: list[str]) -> None:
    rows = {name: list[str]() for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for broker in (Broker(Path(folder, "odradek")), KafkaPeer(Path(folder, "kafka"))):
            broker.start()
            with PlainClient(broker.port) as client:
                client.create_topic(TOPIC)
            idle = psutil.Process(broker.pid).memory_info().rss
            print(f"{broker.name} idle: {idle / 1e6:.0f} MB", flush=True)
            for name, cells in rows.items():
                cells.append(measure(broker, name))
                print(broker.name, name, cells[-1], flush=True)
            broker.stop()
    print("| attack | Odradek | Apache Kafka |\n| --- | --- | --- |")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")


main(sys.argv[1:] or list(ATTACKS))
