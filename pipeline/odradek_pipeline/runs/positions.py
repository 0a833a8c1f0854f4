"""Positions in topics as people write them: `earliest`, `latest`, a time, or an offset for each partition.

A time is `2026-03-01T12:00:00Z`, or milliseconds since 1970. Offsets are `0:1500,1:1480`, with the topic in front where
there are several: `orders/0:1500`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from odradek_pipeline.errors import JobRefusedError

_OFFSETS: Final = re.compile(r"(?:[\w.\-]+/)?\d+:\d+(?:,(?:[\w.\-]+/)?\d+:\d+)*")


class PositionError(JobRefusedError):
    """A text that is no position; the text says which forms there are."""


@dataclass(frozen=True, slots=True)
class RunPosition:
    """One of three: a word, a time in milliseconds, or offsets by topic ("" for the only one) and partition."""

    text: str
    time_ms: int | None = None
    offsets: Mapping[tuple[str, int], int] | None = None

    def offset(self, topic: str, partition: int) -> int | None:
        """The offset that the text gives for a partition; None when it names none."""
        assert self.offsets is not None
        return self.offsets.get((topic, partition), self.offsets.get(("", partition)))


def position(text: str) -> RunPosition:
    """The position that `text` says. Raises PositionError."""
    text = text.strip()
    if text in ("earliest", "latest"):
        return RunPosition(text)
    if _OFFSETS.fullmatch(text):
        return RunPosition(text, offsets=_offsets(text.split(",")))
    return RunPosition(text, time_ms=time_ms(text))


def time_ms(text: str) -> int:
    """A time in milliseconds since 1970. One without a zone is UTC. Raises PositionError."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PositionError(
            f"{text!r} is no position: write earliest, latest, a time as 2026-03-01T12:00:00Z or in milliseconds, "
            "or offsets as 0:1500,1:1480"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _offsets(parts: Iterable[str]) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for part in parts:
        where, _, offset = part.rpartition(":")
        topic, _, partition = where.rpartition("/")
        if (topic, int(partition)) in found:
            raise PositionError(f"partition {where} has two offsets: write each partition once")
        found[topic, int(partition)] = int(offset)
    return found
