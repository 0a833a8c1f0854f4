"""Our Python clients beside kafka-python, aiokafka and confluent-kafka: records/s, and CPU of the client per record.

Each measurement is a process of its own. It makes its client, meets the topic, and then takes the time and `getrusage`
around the records alone. All write to one broker of ours, with acks=all, and read what is there already.
The clients take turns, another one first in each round, and the first round is discarded. CPU is the figure to trust on
a busy machine. confluent-kafka is a library in C; aiokafka has compiled parts; kafka-python and ours have none.

`odradek` is the client for asyncio, and `documents` is `odradek.classic`: Producer with a queue, ConsumerConnector.
The latter's groups need ZooKeeper, so its brokers are a cluster of one.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.parts import run_module
from bench.peers import compiled, storage
from bench.rounds import say
from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.zookeeper import ZooKeeper

CLIENTS: Final = ("odradek", "documents", "aiokafka", "kafka-python", "confluent-kafka")
SIZES: Final = (100, 1_000)
_PYTHON: Final = ("aiokafka", "kafka-python")
_FIRST: Final = 1_000
_SECONDS_MAX: Final = 120

# seconds, seconds of CPU
Cost = tuple[float, float]


class Stopwatch:
    """Time and CPU of this process from `start` to `stop`."""

    def start(self) -> None:
        self._cpu, self._time = _cpu_seconds(), time.perf_counter()

    def stop(self) -> Cost:
        return time.perf_counter() - self._time, _cpu_seconds() - self._cpu


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- producers: `records` of `size` bytes without keys, each handed over by itself ---------------------------------


def produce_odradek(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from odradek import Client, Producer

    async def work() -> Cost:
        watch, value = Stopwatch(), b"x" * size
        async with Client(bootstrap) as client, Producer(client) as producer:
            await producer.send_and_wait(topic, value)
            watch.start()
            for _ in range(records):
                await producer.send(topic, value)
            await producer.flush()
            return watch.stop()

    return asyncio.run(work())


def produce_documents(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from odradek.classic import KeyedMessage, Producer

    properties = {"broker.list": bootstrap, "producer.type": "async", "batch.size": 2_000, "queue.time": 20}
    watch, value = Stopwatch(), b"x" * size
    with Producer(properties) as producer:
        producer.send(KeyedMessage(topic, value))
        producer.flush()
        watch.start()
        for _ in range(records):
            producer.send(KeyedMessage(topic, value))
        producer.flush()
        return watch.stop()


def produce_aiokafka(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from aiokafka import AIOKafkaProducer

    async def work() -> Cost:
        watch, value = Stopwatch(), b"x" * size
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            await producer.send_and_wait(topic, value)
            watch.start()
            for _ in range(records):
                await producer.send(topic, value)
            await producer.flush()
            return watch.stop()

    return asyncio.run(work())


def produce_kafka_python(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from kafka import KafkaProducer

    watch, value = Stopwatch(), b"x" * size
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    producer.send(topic, value).get(60)
    watch.start()
    for _ in range(records):
        producer.send(topic, value)
    producer.flush()
    return watch.stop()


def produce_confluent(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from confluent_kafka import Producer

    watch, value = Stopwatch(), b"x" * size
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    producer.produce(topic, value)
    producer.flush()
    watch.start()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    return watch.stop()


# --- consumers: record by record, from the beginning ---------------------------------------------------------------


def consume_odradek(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from odradek import Client, Consumer

    async def work() -> Cost:
        watch, seen = Stopwatch(), 0
        async with (
            Client(bootstrap) as client,
            Consumer(client, topic, auto_offset_reset="earliest") as consumer,
        ):
            async for record in consumer:
                seen += len(record.value or b"") == size
                if seen == _FIRST:
                    watch.start()
                elif seen == records + _FIRST:
                    return watch.stop()
        raise AssertionError("the topic ended early")

    return asyncio.run(work())


def consume_documents(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from odradek.classic import ConsumerConnector

    properties = {"zk.connect": connect, "groupid": f"bench-{os.getpid()}", "autooffset.reset": "smallest"}
    watch, seen = Stopwatch(), 0
    with ConsumerConnector(properties) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for record in stream:
            seen += len(record.message) == size
            if seen == _FIRST:
                watch.start()
            elif seen == records + _FIRST:
                return watch.stop()
    raise AssertionError("the topic ended early")


def consume_aiokafka(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from aiokafka import AIOKafkaConsumer

    async def work() -> Cost:
        watch, seen = Stopwatch(), 0
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                seen += len(record.value or b"") == size
                if seen == _FIRST:
                    watch.start()
                elif seen == records + _FIRST:
                    return watch.stop()
        raise AssertionError("the topic ended early")

    return asyncio.run(work())


def consume_kafka_python(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from kafka import KafkaConsumer

    watch, seen = Stopwatch(), 0
    for record in KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"):
        seen += len(record.value) == size
        if seen == _FIRST:
            watch.start()
        elif seen == records + _FIRST:
            return watch.stop()
    raise AssertionError("the topic ended early")


def consume_confluent(bootstrap: str, connect: str, topic: str, records: int, size: int) -> Cost:
    from confluent_kafka import Consumer

    watch, seen = Stopwatch(), 0
    settings = {"bootstrap.servers": bootstrap, "group.id": f"bench-{os.getpid()}"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    while True:
        for record in consumer.consume(500, 1):
            seen += len(record.value() or b"") == size
            if seen == _FIRST:
                watch.start()
            elif seen == records + _FIRST:
                return watch.stop()


WORK: Final[dict[str, dict[str, Callable[[str, str, str, int, int], Cost]]]] = {
    "produce": {
        "odradek": produce_odradek,
        "documents": produce_documents,
        "aiokafka": produce_aiokafka,
        "kafka-python": produce_kafka_python,
        "confluent-kafka": produce_confluent,
    },
    "consume": {
        "odradek": consume_odradek,
        "documents": consume_documents,
        "aiokafka": consume_aiokafka,
        "kafka-python": consume_kafka_python,
        "confluent-kafka": consume_confluent,
    },
}


# --- the rounds ------------------------------------------------------------------------------------------------------


def compare_clients(*, rounds: int, records: int, disk: str | None, is_json: bool) -> int:
    """Ask everything `rounds` times after a discarded round, and print the medians."""
    costs: dict[tuple[str, int, str], list[Cost]] = {}
    compiled()
    with storage(disk) as folder:
        zookeeper = ZooKeeper(folder / "zookeeper")
        zookeeper.start()
        settings = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "1"}
        cluster = Cluster(folder, zookeeper.connect, brokers=1, controllers=1, settings=settings)
        cluster.start()
        try:
            for number in range(rounds + 1):
                say(f"round {number} of {rounds}{'' if number else ' (discarded)'}")
                for size in SIZES:
                    for key, cost in _round(cluster, number, records, size).items():
                        if number:
                            costs.setdefault((key[0], size, key[1]), []).append(cost)
        finally:
            cluster.close()
            zookeeper.close()
    _show(costs, records, is_json=is_json)
    return 0


def _round(cluster: Cluster, number: int, records: int, size: int) -> dict[tuple[str, str], Cost]:
    start = number % len(CLIENTS)
    order = [*CLIENTS[start:], *CLIENTS[:start]]
    read = topic_creator(cluster.bootstrap)(1)
    _run("produce", "odradek", cluster, read, records + _FIRST, size)
    found: dict[tuple[str, str], Cost] = {}
    for client in order:
        written = topic_creator(cluster.bootstrap)(1)
        found["produce", client] = _run("produce", client, cluster, written, records, size)
        found["consume", client] = _run("consume", client, cluster, read, records, size)
    return found


def _run(kind: str, client: str, cluster: Cluster, topic: str, records: int, size: int) -> Cost:
    given = (kind, client, cluster.bootstrap, cluster.connect, topic, str(records), str(size))
    seconds, cpu_seconds = json.loads(run_module("bench.python_clients", *given, seconds_max=_SECONDS_MAX))
    return float(seconds), float(cpu_seconds)


def _show(costs: dict[tuple[str, int, str], list[Cost]], records: int, *, is_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "what": kind,
            "record_bytes": size,
            "client": client,
            "records_per_second": round(records / statistics.median(seconds for seconds, _ in found)),
            "cpu_microseconds_per_record": round(
                statistics.median(cpu for _, cpu in found) / records * 1e6, 2
            ),
        }
        for (kind, size, client), found in sorted(costs.items())
    ]
    load = os.getloadavg()[0]
    if is_json:
        print(json.dumps({"load": load, "records": records, "rows": rows}))
        return
    print(f"{'':8} {'bytes':>6} {'client':16} {'records/s':>10} {'us CPU':>7}   (load {load:.1f})")
    for row in rows:
        print(
            f"{row['what']:8} {row['record_bytes']:6} {row['client']:16} {row['records_per_second']:10,}"
            f" {row['cpu_microseconds_per_record']:7.2f}{_verdict(row, rows)}"
        )


def _verdict(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """Whether ours takes less CPU than both other Python clients."""
    if row["client"] not in CLIENTS[:2]:
        return ""
    others = [
        one["cpu_microseconds_per_record"]
        for one in rows
        if one["client"] in _PYTHON
        and (one["what"], one["record_bytes"]) == (row["what"], row["record_bytes"])
    ]
    return "   ahead" if row["cpu_microseconds_per_record"] < min(others) else "   behind"


def main(kind: str, client: str, bootstrap: str, connect: str, topic: str, records: str, size: str) -> None:
    print(json.dumps(WORK[kind][client](bootstrap, connect, topic, int(records), int(size))))
    sys.stdout.flush()
    os._exit(0)  # some clients take seconds to close


if __name__ == "__main__":
    assert Path.cwd().joinpath("bench").is_dir(), "run it in the checkout"
    main(*sys.argv[1:])
