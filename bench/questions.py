"""The questions, with unit and goal, and the answers that rounds gather for both sides: medians and ratios."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Question:
    """A question: a name, a unit, the goal as a bound on ours / the other's, and whether more is better."""

    name: str
    unit: str
    goal: str
    limit: float
    more_is_better: bool
    is_ratio: bool = True  # else the limit is on our own value


# Batches of one record, by the number of partitions that they go to.
TINY: Final = {1: "tiny requests", 6: "tiny batches into 6", 60: "tiny batches into 60"}

QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question("produce 100 B", "MB/s", "≥ 1.2 x", 1.2, True),
        Question("produce 1 KB", "MB/s", "≥ 1.2 x", 1.2, True),
        Question(TINY[1], "requests/s", "≥ 1.2 x", 1.2, True),
        Question(TINY[6], "batches/s", "", 1.0, True),
        Question(TINY[60], "batches/s", "", 1.0, True),
        Question("transactional produce, 100 ms transactions", "MB/s", "≥ 1.0 x", 1.0, True),
        Question("consume 100 B", "MB/s", "≥ 1.2 x", 1.2, True),
        Question("consume 1 KB", "MB/s", "≥ 1.2 x", 1.2, True),
        Question("broker CPU, produce 100 B", "s/GB", "≤ 0.6 x", 0.6, False),
        Question("broker CPU, produce 1 KB", "s/GB", "≤ 0.5 x", 0.5, False),
        Question(f"broker CPU, {TINY[1]}", "µs/request", "≤ 0.35 x", 0.35, False),
        Question(f"broker CPU, {TINY[6]}", "µs/batch", "≤ 0.35 x", 0.35, False),
        Question(f"broker CPU, {TINY[60]}", "µs/batch", "≤ 0.35 x", 0.35, False),
        Question("broker CPU, transactional produce", "s/GB", "", 1.0, False),
        Question("broker CPU, consume 100 B", "s/GB", "", 1.0, False),
        Question("broker CPU, consume 1 KB", "s/GB", "", 1.0, False),
        Question("end to end p50", "ms", "", 1.0, False),
        Question("end to end p99", "ms", "≤ 0.5 x", 0.5, False),
        Question("end to end p50, librdkafka", "ms", "", 1.0, False),
        Question("end to end p99, librdkafka", "ms", "≤ 0.5 x", 0.5, False),
        Question("compaction", "MB/s", "≥ 1.0 x", 1.0, True),
        Question("CPU, compaction", "s/GB", "", 1.0, False),
        Question("compaction, first pass", "ns/record", "≤ 500 ns", 500, False, is_ratio=False),
        Question("compaction, second pass", "ns/record", "≤ 500 ns", 500, False, is_ratio=False),
        Question("offset map, a million keys", "MB", "", 1.0, False),
        Question("produce p99 beside compaction", "ms", "", 1.0, False),
        Question("produce p99 beside compaction / without", "x", "≤ 1.5 x", 1.5, False, is_ratio=False),
        Question("TLS, produce 1 KB", "MB/s", "", 1.0, True),
        Question("TLS, consume 1 KB", "MB/s", "", 1.0, True),
        Question("broker CPU, TLS, produce 1 KB", "s/GB", "", 1.0, False),
        Question("broker CPU, TLS, consume 1 KB", "s/GB", "", 1.0, False),
        Question("memory after the rounds", "MB", "", 1.0, False),
        Question("idle memory", "MB", "≤ 60 MB", 60, False, is_ratio=False),
        Question("exec to first ack", "ms", "≤ 250 ms", 250, False, is_ratio=False),
    )
}

# Of three brokers: three replicas, acks=all, min.insync.replicas=2; CPU is that of all processes that serve.
CLUSTER_QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question("produce 100 B", "MB/s", "≥ 1.5 x", 1.5, True),
        Question("produce 1 KB", "MB/s", "≥ 1.5 x", 1.5, True),
        Question("consume 100 B", "MB/s", "", 1.0, True),
        Question("consume 1 KB", "MB/s", "", 1.0, True),
        Question("CPU, produce 100 B", "s/GB", "≤ 0.5 x", 0.5, False),
        Question("CPU, produce 1 KB", "s/GB", "≤ 0.5 x", 0.5, False),
        Question("CPU, consume 100 B", "s/GB", "", 1.0, False),
        Question("CPU, consume 1 KB", "s/GB", "", 1.0, False),
        Question("end to end p50", "ms", "", 1.0, False),
        Question("end to end p99", "ms", "≤ 0.4 x", 0.4, False),
        Question("failover, leaders moved", "s", "", 1.0, False),
        Question("failover, all acknowledged", "s", "≤ 1 x", 1.0, False),
        Question("start after kill, 1 GB", "s", "≤ 3 s", 3.0, False, is_ratio=False),
        Question("start, 1,000 partitions", "s", "≤ 3 s", 3.0, False, is_ratio=False),
        Question("memory of all", "MB", "", 1.0, False),
    )
}

# The command line beside kcat, on the same broker and the same files; a second is that of the whole process.
COMMAND_LINE_QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question("produce --file, lines of 100 B", "s", "≤ 3 x", 3.0, False),
        Question("produce --file, lines of 1 KB", "s", "≤ 3 x", 3.0, False),
        Question("produce --file, keys and 100 B", "s", "≤ 3 x", 3.0, False),
        Question("consume, lines of 100 B", "s", "≤ 3 x", 3.0, False),
        Question("consume, lines of 1 KB", "s", "≤ 3 x", 3.0, False),
    )
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One question answered: both medians, and every round behind them in the order they were run.

    `other` is the value of `other_name`, beside which Odradek is measured.
    """

    question: Question
    odradek: float
    other: float
    rounds: dict[str, list[float]]
    other_name: str = "kafka"

    @property
    def ratio(self) -> float:
        """Ours / the other's, of the medians."""
        return self.odradek / self.other

    @property
    def round_ratios(self) -> list[float]:
        """Ours / the other's, round by round: the spread shows how quiet the machine was."""
        pairs = zip(self.rounds["odradek"], self.rounds[self.other_name], strict=True)
        return [ours / others for ours, others in pairs]

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        question = self.question
        if not question.goal:
            return None
        judged = self.ratio if question.is_ratio else self.odradek
        return judged >= question.limit if question.more_is_better else judged <= question.limit


@dataclass(slots=True)
class Answers:
    """Every round's value, by question and side: ours and `other_name`."""

    questions: Mapping[str, Question] = field(default_factory=lambda: QUESTIONS)
    values: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    other_name: str = "kafka"

    def add(self, question: str, peer: str, value: float) -> None:
        self.values[question][peer].append(value)

    def listed(self) -> list[Answer]:
        """One answer per question that was asked, in the order of the questions."""
        found: list[Answer] = []
        for name, question in self.questions.items():
            if name in self.values:
                rounds = {peer: list(values) for peer, values in self.values[name].items()}
                medians = {peer: statistics.median(values) for peer, values in rounds.items()}
                other = medians[self.other_name]
                found.append(Answer(question, medians["odradek"], other, rounds, self.other_name))
        return found
