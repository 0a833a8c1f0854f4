"""Reports of a comparison: a table for a terminal and docs/performance.md alike, or JSON for programs."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench.peers import EARLIER
from bench.questions import Answer
from tests.support.java import KAFKA_VERSION

_TITLES = {"kafka": f"Kafka {KAFKA_VERSION}", "kcat": "kcat", EARLIER: EARLIER}
_NUMBERS = {1, 2, 4}  # columns whose texts stand on the right


def machine(*, disk: str | None, rounds: int, is_pinned: bool) -> str:
    """The machine that the numbers were measured on."""
    model = "an unnamed processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = psutil.virtual_memory().total / 2**30
    place = f"Logs below {disk}" if disk else "Logs in memory (/dev/shm)"
    cores = "brokers and clients on cores of their own" if is_pinned else "brokers and clients share them"
    counted = "One round" if rounds == 1 else f"Medians of {rounds} interleaved rounds"
    return (
        f"{psutil.cpu_count()} cores of {model} ({cores}), {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}. {place}. {counted} after a discarded one."
    )


def table(answers: Sequence[Answer], *, described: str) -> str:
    """A Markdown table in even columns below a description of the machine."""
    other = _TITLES[answers[0].other_name] if answers else ""
    head = ("question", "Odradek", other, "unit", "ratio", "rounds' ratios", "goal", "met")
    rows = [head, *(_row(answer) for answer in answers)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "| "
        + " | ".join(
            text.rjust(width) if column in _NUMBERS else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in rows
    ]
    rule = [
        "-" * (width + 1) + ":" if column in _NUMBERS else "-" * (width + 2)
        for column, width in enumerate(widths)
    ]
    lines.insert(1, f"|{'|'.join(rule)}|")
    return "\n".join([described, "", *lines])


def document(answers: Sequence[Answer], *, described: str) -> str:
    """One JSON object: the machine, and each answer with its rounds."""
    return json.dumps(
        {
            "machine": described,
            "answers": [
                {
                    "question": answer.question.name,
                    "unit": answer.question.unit,
                    "odradek": round(answer.odradek, 3),
                    answer.other_name: round(answer.other, 3),
                    "ratio": round(answer.ratio, 3),
                    "goal": answer.question.goal,
                    "met": answer.is_met,
                    "rounds": {
                        peer: [round(one, 3) for one in values] for peer, values in answer.rounds.items()
                    },
                }
                for answer in answers
            ],
        },
        ensure_ascii=False,
        indent=1,
    )


def _row(answer: Answer) -> tuple[str, ...]:
    ratios = answer.round_ratios
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else "-"
    met = {None: "-", True: "yes", False: "no"}[answer.is_met]
    return (
        answer.question.name,
        _number(answer.odradek),
        _number(answer.other),
        answer.question.unit,
        f"{answer.ratio:.2f}",
        spread,
        answer.question.goal or "-",
        met,
    )


def _number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
