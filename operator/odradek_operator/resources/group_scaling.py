"""The scaling of a group's consumers by the records that wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.schema import INT64_MAX, Duration, Text, Whole
from odradek_operator.resources.structure import Doc, Rule

SCALED_REPLICAS_MAX: Final = 10_000
SCALE_DOWN_AFTER_MS: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogScaling:
    """The number of consumers that a backlog needs: one for each `messages_per_member`, rounded up."""

    RULES: ClassVar = (Rule("!has(self.min) || self.min <= self.max", "min must not be more than max"),)

    messages_per_member: Annotated[
        int,
        Whole(minimum=1, maximum=INT64_MAX),
        Doc("How many waiting records one more consumer is worth."),
    ]
    min: Annotated[
        int,
        Whole(maximum=SCALED_REPLICAS_MAX),
        Doc("At least so many. With 0 the workload rests while nothing waits. A group of the type Share "
            "that has read nothing yet has one, with which it begins."),
    ] = 1  # fmt: skip
    max: Annotated[
        int,
        Whole(minimum=1, maximum=SCALED_REPLICAS_MAX),
        Doc("At most so many. A group of the type Consumer never gets more than it has partitions."),
    ]
    scale_down_after: Annotated[
        int,
        Duration(),
        Doc("How long fewer must have been enough before consumers are taken away."),
    ] = SCALE_DOWN_AFTER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingStatus:
    """How many consumers the backlog needs, as it was measured."""

    wanted: Annotated[int, Whole(), Doc("So many are enough for what waits now.")]
    fewer_since: Annotated[
        str | None,
        Text(form="date-time", max_length=64),
        Doc("Since when fewer are enough than there are."),
    ] = None
    highest_since: Annotated[
        int | None, Whole(), Doc("The most that were needed since then. The workload shrinks to it.")
    ] = None
