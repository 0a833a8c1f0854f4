"""The values of the page, and the verdict over all of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GOOD: Final = "good"
WARNING: Final = "warning"
BAD: Final = "bad"
# Verdicts of the audit by what they say of a window, worst first.
LEVELS: Final = {
    "missing": BAD,
    "duplicated": BAD,
    "changed": BAD,
    "stalled": WARNING,
    "reopened": WARNING,
    "waiting": WARNING,
    "late": GOOD,
    "waived": GOOD,
    "complete": GOOD,
}
_REPLAYED: Final = ("load", "stream", "replay")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. Rows and bytes are None where the table does not say them."""

    number: int
    run: str
    kind: str
    started_ms: int
    committed_ms: int
    rows: int | None
    dead: int
    offsets: int
    lost: int
    size_bytes: int | None
    version: int
    ranges: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return max(self.committed_ms - self.started_ms, 0) / 1000

    @property
    def rows_a_second(self) -> float | None:
        return None if self.rows is None or not self.seconds else self.rows / self.seconds


@dataclass(frozen=True, slots=True)
class LagRow:
    """One partition: the next offset of the table, and the log's end."""

    partition: str
    next_offset: int
    log_end: int

    @property
    def lag(self) -> int:
        return max(self.log_end - self.next_offset, 0)


@dataclass(frozen=True, slots=True)
class WindowRow:
    topic: str
    tier: str
    start_ms: int
    verdict: str
    expected: int
    found: int


@dataclass(frozen=True, slots=True)
class MarkRow:
    """Up to when a tier of a topic is complete; None for not yet."""

    topic: str
    tier: str
    complete_until_ms: int | None
    blocked_by: str


@dataclass(frozen=True, slots=True)
class PageData:
    """All of a page. `runs` are the newest, oldest first; `lag` is None where no broker was asked."""

    output: str
    output_format: str
    made_ms: int
    runs: Sequence[RunRow]
    lag: Sequence[LagRow] | None = None
    windows: Sequence[WindowRow] | None = None
    marks: Sequence[MarkRow] = ()
    options: Sequence[str] = ()
    """The parts of a command that reach the brokers."""

    def replay_command(self, run: RunRow) -> str | None:
        """The command that reads a run's ranges again; None for a run that read none."""
        if run.kind not in _REPLAYED or not run.ranges:
            return None
        words = ["odradek-pipeline", "replay", "--output", self.output, "--format", self.output_format]
        return shlex.join([*words, *self.options, "--run", run.run])


def judge_table(data: PageData) -> tuple[str, list[str]]:
    """The worst level of all that is shown, and a sentence for each thing to look at."""
    found: list[tuple[str, str]] = []
    failing = [one for one in data.windows or () if LEVELS.get(one.verdict, BAD) == BAD]
    if failing:
        found.append((BAD, f"{format_count(len(failing), 'window')} of the audit failed"))
    lost = sum(one.lost for one in data.runs)
    if lost:
        found.append((BAD, f"{format_count(lost, 'offset')} gone from the log before a run read them"))
    open_windows = [one for one in data.windows or () if LEVELS.get(one.verdict) == WARNING]
    if open_windows:
        found.append((WARNING, f"{format_count(len(open_windows), 'window')} of the audit not decided"))
    dead = sum(one.dead for one in data.runs)
    if dead:
        retried = sum(one.rows or 0 for one in data.runs if one.kind == "retry")
        found.append(
            (WARNING, f"{format_count(dead, 'dead letter')} written, {retried:,} retried into the table")
        )
    behind = sum(one.lag for one in data.lag or ())
    if behind:
        found.append((WARNING, f"{format_count(behind, 'offset')} behind the log"))
    if not found:
        return GOOD, ["Nothing lost, nothing dead, nothing behind"]
    levels = [level for level, _ in found]
    return (BAD if BAD in levels else WARNING), [said for _, said in found]


def format_count(count: int, thing: str) -> str:
    """`1 window`, `1,200 windows`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
