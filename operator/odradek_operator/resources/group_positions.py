"""Places in a log where a group begins, or where a reset takes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.schema import Choice, Duration, Text
from odradek_operator.resources.structure import Doc, Rule


class At(StrEnum):
    """A place in a log."""

    EARLIEST = "Earliest"
    LATEST = "Latest"
    TIMESTAMP = "Timestamp"
    DURATION = "Duration"


class ResetAt(StrEnum):
    """A place in a log, or where the group was before the last reset."""

    EARLIEST = "Earliest"
    LATEST = "Latest"
    TIMESTAMP = "Timestamp"
    DURATION = "Duration"
    SNAPSHOT = "Snapshot"


_PLACE_RULES: Final = (
    Rule(
        "self.at != 'Timestamp' || has(self.timestamp)",
        "at: Timestamp needs timestamp, as 2026-01-31T12:00:00Z",
    ),
    Rule(
        "self.at != 'Duration' || has(self.duration)",
        "at: Duration needs duration, as 2h: so long before now",
    ),
)
_TIMESTAMP: Final = Text(form="date-time", max_length=64)
_TIMESTAMP_DOC: Final = Doc("For Timestamp: the first record that is not older.")
_DURATION_DOC: Final = Doc("For Duration: the first record that is not older than this, from now.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """The position at which reading begins."""

    RULES: ClassVar = _PLACE_RULES

    at: Annotated[At, Choice(At), Doc("The first record kept, the next to come, or the first of a time.")]
    timestamp: Annotated[str | None, _TIMESTAMP, _TIMESTAMP_DOC] = None
    duration: Annotated[int | None, Duration(), _DURATION_DOC] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPosition:
    """The position that a reset goes to."""

    RULES: ClassVar = _PLACE_RULES

    at: Annotated[
        ResetAt,
        Choice(ResetAt),
        Doc(
            "The first record kept, the next to come, the first of a time, or (Snapshot) where the last reset began."
        ),
    ]
    timestamp: Annotated[str | None, _TIMESTAMP, _TIMESTAMP_DOC] = None
    duration: Annotated[int | None, Duration(), _DURATION_DOC] = None
