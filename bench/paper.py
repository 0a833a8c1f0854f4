"""The experiments of the paper of 2011 (Kafka: a Distributed Messaging System for Log Processing, NetDB'11, section 5).

A producer writes messages of 200 bytes, alone and in sets of 50, without waiting for acknowledgements. A consumer reads
them by pulls of up to 200 KB. The log says what a message costs besides its payload. One topic with one partition.

Two clients write and read: the documents' own in Python (`odradek.classic`), and librdkafka, as programs of today. The
latter also on Apache Kafka 4.1.1, on the same machine and in turns. Each measurement is a process of its own. A
producer's time ends when the log has its last message: the paper's producer did not wait for that.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import report
from bench.parts import run_module
from bench.peers import Peer, both, kafka
from bench.rounds import say
from tests.support.peers import topic_creator
from tests.support.polling import wait_until

MESSAGE_BYTES: Final = 200
SETS: Final = (1, 50)
PULL_BYTES: Final = 200_000
DOCUMENTS, LIBRDKAFKA = "documents", "librdkafka"
# The sides of the table: a client, and the broker that it talks to.
SIDES: Final = ((DOCUMENTS, "odradek"), (LIBRDKAFKA, "odradek"), (LIBRDKAFKA, "kafka"))
# What the paper printed, by experiment. Its machines had eight cores of 2 GHz and a link of 1 Gb/s between them.
PUBLISHED: Final = {
    "producer, sets of 1": 50_000,
    "producer, sets of 50": 400_000,
    "consumer": 22_000,
    "overhead, sets of 1": 9,
    "overhead, sets of 50": 9,
}
_UNITS: Final = {"producer": "messages/s", "consumer": "messages/s", "overhead": "bytes/message"}
_SECONDS_MAX: Final = 600
_POLL_SECONDS: Final = 0.005


class Side(NamedTuple):
    """A column of the table."""

    client: str
    broker: str


# experiment -> side -> the figures of the rounds
Figures = dict[str, dict[Side, list[float]]]


# --- the workers: each runs in a process of its own and gives seconds -------------------------------------------------


def produce_documents(bootstrap: str, topic: str, messages: int, set_size: int) -> float:
    from odradek.classic import KeyedMessage, Producer

    one_set = [KeyedMessage(topic, b"x" * MESSAGE_BYTES)] * set_size
    with Producer({"broker.list": bootstrap, "request.required.acks": 0}) as producer:
        producer.send(one_set)
        began = time.perf_counter()
        for _ in range(messages // set_size):
            producer.send(one_set)
        _await_end(bootstrap, topic, messages + set_size)
        return time.perf_counter() - began


def produce_librdkafka(bootstrap: str, topic: str, messages: int, set_size: int) -> float:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "acks": 0, "linger.ms": 5, "batch.num.messages": set_size}
    producer, payload = Producer(settings), b"x" * MESSAGE_BYTES
    for _ in range(set_size):
        producer.produce(topic, payload)
    producer.flush()
    began = time.perf_counter()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, payload)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    _await_end(bootstrap, topic, messages + set_size)
    return time.perf_counter() - began


def _await_end(bootstrap: str, topic: str, end: int) -> None:
    """Wait until the log has `end` messages."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "end"})
    partition = TopicPartition(topic, 0)
    wait_until(
        f"the log has {end} messages",
        lambda: reader.get_watermark_offsets(partition, 10)[1],
        lambda found: found >= end,
        seconds_max=_SECONDS_MAX,
        pause_seconds=_POLL_SECONDS,
    )
    reader.close()


def consume_documents(bootstrap: str, topic: str, messages: int, set_size: int) -> float:
    from odradek.classic import FetchRequest, SimpleConsumer

    host, _, port = bootstrap.rpartition(":")
    offset = 0
    with SimpleConsumer(host, int(port)) as consumer:
        began = time.perf_counter()
        while offset < messages:
            for message in consumer.fetch(FetchRequest(topic, 0, offset=offset, max_size=PULL_BYTES)):
                assert len(message.payload or b"") == MESSAGE_BYTES
                offset = message.offset + 1
        return time.perf_counter() - began


def consume_librdkafka(bootstrap: str, topic: str, messages: int, set_size: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "pull", "max.partition.fetch.bytes": PULL_BYTES}
    consumer, seen = Consumer(settings), 0
    consumer.assign([TopicPartition(topic, 0, 0)])
    began = time.perf_counter()
    while seen < messages:
        for message in consumer.consume(1_000, 10):
            assert len(message.value() or b"") == MESSAGE_BYTES
            seen += 1
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds


WORK: Final[Mapping[str, Callable[[str, str, int, int], float]]] = {
    f"produce {DOCUMENTS}": produce_documents,
    f"produce {LIBRDKAFKA}": produce_librdkafka,
    f"consume {DOCUMENTS}": consume_documents,
    f"consume {LIBRDKAFKA}": consume_librdkafka,
}


# --- the rounds -------------------------------------------------------------------------------------------------------


def repeat_paper(*, rounds: int, messages: int, disk: str | None, is_json: bool) -> int:
    """Do every experiment `rounds` times after a discarded one, and print the medians. Returns 0."""
    figures: Figures = {}
    with both(disk, other=kafka) as peers:
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}{'' if number else ' (discarded)'}")
            for side in map(Side._make, SIDES[number % len(SIDES) :] + SIDES[: number % len(SIDES)]):
                (peer,) = (one for one in peers if one.name == side.broker)
                for experiment, figure in measure(peer, side.client, messages).items():
                    if number:
                        figures.setdefault(experiment, {}).setdefault(side, []).append(figure)
    described = report.machine(disk=disk, rounds=rounds, is_pinned=False)
    print(show_figures(figures, described=described, messages=messages, is_json=is_json), flush=True)
    return 0


def measure(peer: Peer, client: str, messages: int) -> dict[str, float]:
    """Each experiment once: messages a second, and bytes that a message has in the log besides its payload."""
    found: dict[str, float] = {}
    topic = ""
    for set_size in SETS:
        topic = topic_creator(peer.bootstrap)(1)
        seconds = _run(f"produce {client}", peer.bootstrap, topic, messages, set_size)
        found[f"producer, sets of {set_size}"] = messages / seconds
        stored = sum(path.stat().st_size for path in Path(peer.data).glob(f"{topic}-0/*.log"))
        found[f"overhead, sets of {set_size}"] = stored / (messages + set_size) - MESSAGE_BYTES
    found["consumer"] = messages / _run(f"consume {client}", peer.bootstrap, topic, messages, SETS[-1])
    return found


def _run(work: str, bootstrap: str, topic: str, messages: int, set_size: int) -> float:
    given = (work, bootstrap, topic, str(messages), str(set_size))
    return float(run_module("bench.paper", *given, seconds_max=_SECONDS_MAX))


def show_figures(figures: Figures, *, described: str, messages: int, is_json: bool) -> str:
    """The medians beside what the paper printed: a Markdown table, or JSON."""
    medians = {
        experiment: {side: statistics.median(figures[experiment][Side(*side)]) for side in SIDES}
        for experiment in PUBLISHED
    }
    if is_json:
        rows = [
            {"experiment": experiment, "published": PUBLISHED[experiment]}
            | {f"{client} on {broker}": figure for (client, broker), figure in found.items()}
            for experiment, found in medians.items()
        ]
        return json.dumps({"machine": described, "messages": messages, "rows": rows}, indent=2)
    lines: list[Sequence[str]] = [
        (
            "experiment",
            "the paper",
            "Odradek, documents' client",
            "Odradek, librdkafka",
            "Kafka 4.1.1, librdkafka",
            "unit",
        )
    ]
    for experiment, found in medians.items():
        unit = _UNITS[experiment.partition(",")[0]]
        digits = 1 if unit == "bytes/message" else 0
        texts = (f"{round(figure, digits or None):,}" for figure in found.values())
        lines.append((experiment, f"{PUBLISHED[experiment]:,}", *texts, unit))
    table = [f"| {' | '.join(line)} |" for line in lines]
    table.insert(1, "|---|---:|---:|---:|---:|---|")
    load = os.getloadavg()[0]
    return "\n".join(
        [f"{described} {messages:,} messages of {MESSAGE_BYTES} bytes, load {load:.1f}.", "", *table]
    )


if __name__ == "__main__":
    print(WORK[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
