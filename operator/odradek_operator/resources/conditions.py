"""Conditions: what is true of a resource, since when, why, and what to do.

A reconciler states on each run which conditions hold. `merge_conditions` keeps the time of the last change where
nothing has changed. So the same conditions make the same status, which is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from odradek_operator.resources.schema import INT64_MAX, Choice, Schema, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested

READY: Final = "Ready"
PAUSED: Final = "Paused"
_MESSAGE_LENGTH_MAX = 4096


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, in the form that Kubernetes' own tools wait for (`kubectl wait --for=condition=Ready`)."""

    type: Annotated[str, Text(max_length=64), Doc("Which condition.")]
    status: Annotated[ConditionStatus, Choice(ConditionStatus), Doc("Whether it holds.")]
    reason: Annotated[str, Text(max_length=128), Doc("Why, as a word for programs.")]
    message: Annotated[
        str, Text(max_length=_MESSAGE_LENGTH_MAX), Doc("Why and what to do, as a sentence for people.")
    ] = ""
    observed_generation: Annotated[
        int | None, Whole(maximum=INT64_MAX), Doc("The generation of the resource that was looked at.")
    ] = None
    last_transition_time: Annotated[
        str | None, Text(form="date-time", max_length=64), Doc("When `status` changed last.")
    ] = None


CONDITIONS: Final[Schema] = Listing(Nested(Condition), max_items=32, keys=("type",))
CONDITIONS_DOC: Final = Doc("What is true of the resource now.")
OBSERVED_GENERATION: Final[Schema] = Whole(maximum=INT64_MAX)
OBSERVED_GENERATION_DOC: Final = Doc("The generation of the resource that this status is about.")


def condition(type: str, holds: bool | None, reason: str, message: str = "") -> Condition:
    """A condition as a reconciler states it; None is unknown. A message that is too long is shortened."""
    status = (
        ConditionStatus.UNKNOWN if holds is None else ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    )
    if len(message) > _MESSAGE_LENGTH_MAX:
        message = message[: _MESSAGE_LENGTH_MAX - 1] + "…"
    return Condition(type=type, status=status, reason=reason, message=message)


def ready_condition(holds: bool | None, reason: str, message: str = "") -> Condition:
    """The condition that every resource has."""
    return condition(READY, holds, reason, message)


def is_ready(conditions: Iterable[Condition]) -> bool:
    """Whether the condition that every resource has holds."""
    return any(one.type == READY and one.status is ConditionStatus.TRUE for one in conditions)


def merge_conditions(
    before: Iterable[Condition], stated: Iterable[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions to write: those stated, with the time kept where the status is the same. Others go."""
    known = {old.type: old for old in before}
    result: list[Condition] = []
    for new in stated:
        old = known.get(new.type)
        same = old is not None and old.status == new.status and old.last_transition_time is not None
        since = old.last_transition_time if same and old is not None else format_timestamp(now)
        result.append(replace(new, observed_generation=generation, last_transition_time=since))
    return tuple(result)


def format_timestamp(moment: datetime) -> str:
    """A time as the API has it: seconds, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
