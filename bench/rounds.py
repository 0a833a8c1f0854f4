"""Interleaved rounds: every step asked of one broker, then of the other, and the next round begins with the other.

So other load on the machine affects both. Both get the same tools with the same settings. The first round warms Kafka's
JVM and is discarded. Left out: what the numbers mean, which `questions` says.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import end_to_end, tools
from bench.compaction import compaction
from bench.first_ack import first_ack_seconds
from bench.memory import log_bytes, touched
from bench.peers import EARLIER, Peer, both, earlier, fresh_topic, kafka, ours, storage, usage
from bench.questions import QUESTIONS, TINY, Answers
from bench.tls import tls
from tests.support.kafka_peer import KafkaPeer

PARTITIONS = 6


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amount of each that is sent in a round."""

    records_100: int
    records_1k: int
    tiny: int
    latency: int
    compacted: int


FULL = Sizes(records_100=5_000_000, records_1k=1_000_000, tiny=150_000, latency=5000, compacted=2_000_000)
QUICK = Sizes(records_100=1_000_000, records_1k=300_000, tiny=30_000, latency=1000, compacted=500_000)
# Turns of seconds: what else the machine does falls on both.
SHORT = Sizes(records_100=500_000, records_1k=150_000, tiny=20_000, latency=1000, compacted=500_000)

Step = Callable[[Peer, Answers, Sizes], None]


def compare(
    *,
    rounds: int,
    sizes: Sizes,
    disk: str | None,
    only: Sequence[str] = (),
    is_pinned: bool = False,
    minutes_max: float = 60,
    checkout: Path | None = None,
) -> tuple[Answers, int]:
    """Ask everything `rounds` times after a discarded round; the answers, and how many rounds there was time for.

    `only` names steps (see PARTS). At least one round is kept, however long it takes. With `checkout` an earlier broker
    of ours takes Kafka's place. There are no goals then, and only EARLIER_PARTS are asked unless `only` names others.
    """
    answers, asked = Answers(), only or PARTS
    other: Callable[[Path], Peer] = kafka
    if checkout is not None:
        questions = {name: replace(question, goal="") for name, question in QUESTIONS.items()}
        answers = Answers(questions, other_name=EARLIER)
        other, asked = earlier(checkout), only or EARLIER_PARTS
    done = rounds
    steps = [step for name, step in _STEPS.items() if name in asked]
    deadline = time.monotonic() + minutes_max * 60
    if steps:
        with both(disk, is_pinned=is_pinned, other=other) as peers:
            done = _rounds(peers, steps, answers, rounds=rounds, sizes=sizes, deadline=deadline)
            for peer in peers:
                answers.add("memory after the rounds", peer.name, usage(peer).resident_bytes / 1e6)
    if COMPACTION in asked:
        say("compaction")
        compaction(answers, disk, rounds=done, records=sizes.compacted)
    if TLS in asked:
        say("TLS")
        tls(answers, disk, rounds=done, records=sizes.records_1k)
    if START in asked:
        for number in range(done):
            say(f"start {number + 1} of {done}")
            _starts(answers, disk, number, other)
    return answers, done


def _rounds(
    peers: Sequence[Peer],
    steps: Sequence[Step],
    answers: Answers,
    *,
    rounds: int,
    sizes: Sizes,
    deadline: float,
) -> int:
    """The discarded round and those that count; how many counted."""
    for number in range(rounds + 1):
        began = time.monotonic()
        kept = answers if number else Answers(answers.questions, other_name=answers.other_name)
        order = peers if number % 2 else peers[::-1]
        for step in steps:
            for peer in order:
                say(
                    f"round {number} of {rounds}{'' if number else ' (discarded)'}: {peer.name}, {step.__name__}"
                )
                step(peer, kept, sizes)
        ended = time.monotonic()
        if number and number < rounds and ended + (ended - began) > deadline:
            say(f"no time for more than {number} rounds (--minutes-max)")
            return number
    return rounds


def say(what: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def throughput_100(peer: Peer, answers: Answers, sizes: Sizes) -> None:
    _throughput(peer, answers, label="100 B", record_bytes=100, records=sizes.records_100)


def throughput_1k(peer: Peer, answers: Answers, sizes: Sizes) -> None:
    _throughput(peer, answers, label="1 KB", record_bytes=1000, records=sizes.records_1k)


def _throughput(peer: Peer, answers: Answers, *, label: str, record_bytes: int, records: int) -> None:
    """A topic is filled as fast as the producer goes, then read from its beginning."""
    with fresh_topic(peer, PARTITIONS) as topic:
        with touched(log_bytes(records=records, record_bytes=record_bytes)):
            sent = tools.produce(peer, topic, records=records, record_bytes=record_bytes)
        answers.add(f"produce {label}", peer.name, sent.megabytes_per_second)
        answers.add(f"broker CPU, produce {label}", peer.name, sent.cpu_seconds_per_gigabyte)
        got = tools.consume(peer, topic, records=records, record_bytes=record_bytes)
        answers.add(f"consume {label}", peer.name, got.megabytes_per_second)
        answers.add(f"broker CPU, consume {label}", peer.name, got.cpu_seconds_per_gigabyte)


def tiny(peer: Peer, answers: Answers, sizes: Sizes) -> None:
    """Each batch has one record of 100 B; as many requests are in flight as the producer's default allows.

    A request has at most one batch for each partition, so those of several partitions share requests.
    """
    for partitions, name in TINY.items():
        with fresh_topic(peer, partitions) as topic:
            sent = tools.produce(
                peer, topic, records=sizes.tiny, record_bytes=100, linger_ms="0", batch_size="0"
            )
        answers.add(name, peer.name, sent.records_per_second)
        answers.add(f"broker CPU, {name}", peer.name, sent.broker_cpu_seconds / sizes.tiny * 1e6)


def transactional(peer: Peer, answers: Answers, sizes: Sizes) -> None:
    """One producer of 1 KB records that commits every 100 ms; the next transaction begins while markers are written."""
    with fresh_topic(peer, PARTITIONS) as topic:
        sent = tools.produce(peer, topic, records=sizes.records_1k, record_bytes=1000, transaction_ms=100)
        answers.add("transactional produce, 100 ms transactions", peer.name, sent.megabytes_per_second)
        answers.add("broker CPU, transactional produce", peer.name, sent.cpu_seconds_per_gigabyte)


def latency(peer: Peer, answers: Answers, sizes: Sizes) -> None:
    """As many records are sent before those that count, for the clients' own warming."""
    for client, suffix in ((end_to_end.kafkas_clients, ""), (end_to_end.librdkafka, ", librdkafka")):
        with fresh_topic(peer, 1) as topic:
            found = client(peer, topic, records=sizes.latency, discarded=sizes.latency)
            answers.add(f"end to end p50{suffix}", peer.name, found.p50_ms)
            answers.add(f"end to end p99{suffix}", peer.name, found.p99_ms)


def _starts(answers: Answers, disk: str | None, number: int, other: Callable[[Path], Peer]) -> None:
    """Each broker alone on a new folder: time to the first acknowledged record, and memory when idle."""
    for make in (ours, other) if number % 2 else (other, ours):
        with storage(disk) as folder:
            peer = make(folder / "new")
            if isinstance(peer, KafkaPeer):
                peer.prepare()  # formatting its storage is not part of Kafka's start
            try:
                seconds = first_ack_seconds(peer)
                answers.add("exec to first ack", peer.name, seconds * 1000)
            finally:
                peer.close()
            idle = make(folder / "idle")
            try:
                idle.start()
                answers.add("idle memory", idle.name, usage(idle).resident_bytes / 1e6)
            finally:
                idle.close()


COMPACTION = "compaction"
START = "start"
TLS = "tls"
_STEPS: dict[str, Step] = {
    "100B": throughput_100,
    "1KB": throughput_1k,
    "tiny": tiny,
    "transactions": transactional,
    "latency": latency,
}
PARTS = (*_STEPS, COMPACTION, TLS, START)
# Beside an earlier checkout, which may have no transactions. Compaction and TLS need Kafka's side.
EARLIER_PARTS = ("100B", "1KB", "tiny", "latency", START)
KAFKA_PARTS = (COMPACTION, TLS)
