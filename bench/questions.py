"""The questions, each answered for both brokers in interleaved rounds: medians, ratio and goal.

A round asks every question of one broker and then of the other, and the next round begins with the other, so that
whatever else the machine does meets both. The first round warms Kafka's JVM and is discarded.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import probe, tools
from bench.peers import Peer, both, fresh_topic, kafka, ours, storage, usage

PARTITIONS = 6


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a name, a unit, the goal as a bound on ours / Kafka's, and whether more is better."""

    name: str
    unit: str
    goal: str
    limit: float
    more_is_better: bool
    is_ratio: bool = True  # else the limit is on our own value


QUESTIONS = {
    question.name: question
    for question in (
        Question("produce 100 B", "MB/s", "≥ 1.2 x", 1.2, True),
        Question("produce 1 KB", "MB/s", "≥ 1.2 x", 1.2, True),
        Question("tiny requests", "requests/s", "≥ 1.2 x", 1.2, True),
        Question("consume 100 B", "MB/s", "≥ 1.2 x", 1.2, True),
        Question("consume 1 KB", "MB/s", "≥ 1.2 x", 1.2, True),
        Question("broker CPU, produce 100 B", "s/GB", "≤ 0.6 x", 0.6, False),
        Question("broker CPU, produce 1 KB", "s/GB", "≤ 0.5 x", 0.5, False),
        Question("broker CPU, tiny requests", "µs/request", "", 1.0, False),
        Question("broker CPU, consume 1 KB", "s/GB", "", 1.0, False),
        Question("end to end p50", "ms", "", 1.0, False),
        Question("end to end p99", "ms", "≤ 0.5 x", 0.5, False),
        Question("end to end mean, Kafka's tool", "ms", "", 1.0, False),
        Question("memory after the rounds", "MB", "", 1.0, False),
        Question("idle memory", "MB", "≤ 60 MB", 60, False, is_ratio=False),
        Question("exec to first ack", "ms", "≤ 250 ms", 250, False, is_ratio=False),
    )
}


@dataclass(slots=True)
class Answers:
    """Every round's value, by question and broker."""

    values: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def add(self, question: str, peer: str, value: float) -> None:
        self.values[question][peer].append(value)

    def lines(self) -> list[dict[str, object]]:
        """One answer per question, in the order of QUESTIONS."""
        found: list[dict[str, object]] = []
        for name, question in QUESTIONS.items():
            if name not in self.values:
                continue
            medians = {peer: statistics.median(rounds) for peer, rounds in self.values[name].items()}
            ratio = medians["odradek"] / medians["kafka"]
            judged = ratio if question.is_ratio else medians["odradek"]
            met = judged >= question.limit if question.more_is_better else judged <= question.limit
            found.append(
                {
                    "question": name,
                    "unit": question.unit,
                    "odradek": round(medians["odradek"], 3),
                    "kafka": round(medians["kafka"], 3),
                    "ratio": round(ratio, 3),
                    "goal": question.goal,
                    "met": met if question.goal else None,
                    "rounds": {
                        peer: [round(one, 3) for one in rounds] for peer, rounds in self.values[name].items()
                    },
                }
            )
        return found


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each is sent in a round."""

    records_100: int
    records_1k: int
    tiny: int
    latency: int


FULL = Sizes(records_100=5_000_000, records_1k=1_000_000, tiny=150_000, latency=5000)
QUICK = Sizes(records_100=1_000_000, records_1k=300_000, tiny=30_000, latency=1000)


def compare(*, rounds: int, sizes: Sizes, disk: str | None, only: Sequence[str]) -> Answers:
    """Ask everything `rounds` times, after one discarded round."""
    answers = Answers()
    steps = {name: step for name, step in _STEPS.items() if not only or any(part in name for part in only)}
    with both(disk) as peers:
        for number in range(rounds + 1):
            kept = answers if number else Answers()
            order = peers if number % 2 else peers[::-1]
            for name, step in steps.items():
                for peer in order:
                    print(f"round {number} of {rounds}: {name}, {peer.name}", file=sys.stderr, flush=True)
                    step(peer, kept, sizes)
        for peer in peers:
            answers.add("memory after the rounds", peer.name, usage(peer).resident_bytes / 1e6)
    if not only or any(part in "start" for part in only):
        for _ in range(rounds):
            _starts(answers, disk)
    return answers


def _throughput(record_bytes: int, label: str) -> Callable[[Peer, Answers, Sizes], None]:
    def step(peer: Peer, answers: Answers, sizes: Sizes) -> None:
        records = sizes.records_100 if record_bytes == 100 else sizes.records_1k
        with fresh_topic(peer, PARTITIONS) as topic:
            sent = tools.produce(peer, topic, records=records, record_bytes=record_bytes)
            answers.add(f"produce {label}", peer.name, sent.megabytes_per_second)
            answers.add(f"broker CPU, produce {label}", peer.name, sent.cpu_seconds_per_gigabyte)
            got = tools.consume(peer, topic, records=records, record_bytes=record_bytes)
            answers.add(f"consume {label}", peer.name, got.megabytes_per_second)
            if record_bytes != 100:
                answers.add(f"broker CPU, consume {label}", peer.name, got.cpu_seconds_per_gigabyte)

    return step


def _tiny(peer: Peer, answers: Answers, sizes: Sizes) -> None:
    with fresh_topic(peer, 1) as topic:
        sent = tools.produce(peer, topic, records=sizes.tiny, record_bytes=100, linger_ms="0", batch_size="0")
        answers.add("tiny requests", peer.name, sent.records_per_second)
        answers.add("broker CPU, tiny requests", peer.name, sent.broker_cpu_seconds / sizes.tiny * 1e6)


def _latency(peer: Peer, answers: Answers, sizes: Sizes) -> None:
    with fresh_topic(peer, 1) as topic:
        probed = probe.latency(peer, topic, records=sizes.latency)
        answers.add("end to end p50", peer.name, probed.p50_ms)
        answers.add("end to end p99", peer.name, probed.p99_ms)
    with fresh_topic(peer, 1) as topic:
        told = tools.latency(peer, topic, records=sizes.latency)
        answers.add("end to end mean, Kafka's tool", peer.name, told.average_ms)


def _starts(answers: Answers, disk: str | None) -> None:
    """Each broker alone on a new folder: time to the first acknowledged record, and memory when idle."""
    for make in (ours, kafka):
        with storage(disk) as folder:
            if make is kafka:
                _warm_format(folder)
            peer = make(folder / "new")
            try:
                seconds = probe.first_ack_seconds(peer)
                answers.add("exec to first ack", peer.name, seconds * 1000)
            finally:
                peer.close()
            idle = make(folder / "idle")
            try:
                idle.start()
                answers.add("idle memory", idle.name, usage(idle).resident_bytes / 1e6)
            finally:
                idle.close()


def _warm_format(folder: Path) -> None:
    """Formatting Kafka's storage is not part of its start: done once, and kept in the cache."""
    peer = kafka(Path(tempfile.mkdtemp(dir=folder)))
    peer.prepare()


_STEPS: dict[str, Callable[[Peer, Answers, Sizes], None]] = {
    "throughput 100 B": _throughput(100, "100 B"),
    "throughput 1 KB": _throughput(1000, "1 KB"),
    "tiny requests": _tiny,
    "latency": _latency,
}


def markdown(lines: Sequence[dict[str, object]], machine: str) -> str:
    """The table for docs/performance.md."""
    rows = [
        f"| {line['question']} | {line['odradek']} | {line['kafka']} | {line['unit']} | {line['ratio']} "
        f"| {line['goal'] or '-'} | {_word(line['met'])} |"
        for line in lines
    ]
    head = [
        "| question | Odradek | Kafka 4.1.1 | unit | ratio | goal | met |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([machine, "", *head, *rows])


def _word(met: object) -> str:
    return "-" if met is None else ("yes" if met else "no")


def print_all(answers: Answers, machine: str) -> None:
    """One JSON line per question on standard output, then the table."""
    lines = answers.lines()
    for line in lines:
        print(json.dumps(line, ensure_ascii=False))
    print()
    print(markdown(lines, machine))
