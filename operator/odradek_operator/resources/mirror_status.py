"""The status of a Mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from odradek_operator.resources.conditions import (
    CONDITIONS,
    CONDITIONS_DOC,
    OBSERVED_GENERATION,
    OBSERVED_GENERATION_DOC,
    Condition,
)
from odradek_operator.resources.schema import INT64_MAX, Number, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested

SOURCES_MAX: Final = 16
ALIAS_LENGTH_MAX: Final = 63
TOPICS_SHOWN_MAX: Final = 64
ERROR_LENGTH_MAX: Final = 1024
_COUNT: Final = Whole()
_RECORDS: Final = Whole(maximum=INT64_MAX)
_SECONDS: Final = Number(minimum=0)
_ALIAS: Final = Text(max_length=ALIAS_LENGTH_MAX)
_LAG_DOC: Final = Doc("Records that are not mirrored yet; not set while that is unknown of a partition.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSourceStatus:
    """One source."""

    alias: Annotated[str, _ALIAS, Doc("The source.")]
    state: Annotated[
        str | None,
        Text(max_length=64),
        Doc(
            "What its workers do: starting, running, waiting (for the next try after an error), failed, stopped."
        ),
    ] = None
    topics: Annotated[int, _COUNT, Doc("How many topics are mirrored.")] = 0
    partitions: Annotated[int, _COUNT, Doc("How many partitions.")] = 0
    lag: Annotated[int | None, _RECORDS, _LAG_DOC] = None
    last_error: Annotated[
        str | None, Text(max_length=ERROR_LENGTH_MAX), Doc("What went wrong last, and what to do.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopicStatus:
    """One topic."""

    source: Annotated[str, _ALIAS, Doc("Where it comes from.")]
    topic: Annotated[str, Text(max_length=249), Doc("Its name there.")]
    partitions: Annotated[int, _COUNT, Doc("How many partitions.")] = 0
    lag: Annotated[int | None, _RECORDS, _LAG_DOC] = None
    lag_seconds: Annotated[
        float | None, _SECONDS, Doc("For how long the oldest record that is not mirrored yet waits.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """The mirror as it was found. Lag is as old as `measuredAt`."""

    observed_generation: Annotated[int | None, OBSERVED_GENERATION, OBSERVED_GENERATION_DOC] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS, CONDITIONS_DOC] = ()
    target: Annotated[str | None, _ALIAS, Doc("The target's alias.")] = None
    from_: Annotated[
        str | None,
        Text(max_length=SOURCES_MAX * (ALIAS_LENGTH_MAX + 2)),
        Doc("The sources' aliases, with commas between them."),
    ] = None
    image: Annotated[str | None, Text(max_length=512), Doc("What the workers run.")] = None
    replicas: Annotated[int | None, _COUNT, Doc("How many workers there are.")] = None
    ready: Annotated[int | None, _COUNT, Doc("How many of them serve.")] = None
    selector: Annotated[str | None, Text(max_length=4096), Doc("The workers' pods, for autoscalers.")] = None
    topics: Annotated[int | None, _COUNT, Doc("How many topics are mirrored.")] = None
    lag: Annotated[int | None, _RECORDS, _LAG_DOC] = None
    sources: Annotated[
        tuple[MirrorSourceStatus, ...],
        Listing(Nested(MirrorSourceStatus), max_items=SOURCES_MAX),
        Doc("Each source."),
    ] = ()
    furthest: Annotated[
        tuple[MirroredTopicStatus, ...],
        Listing(Nested(MirroredTopicStatus), max_items=TOPICS_SHOWN_MAX),
        Doc(f"The {TOPICS_SHOWN_MAX} topics that are furthest behind."),
    ] = ()
    measured_at: Annotated[
        str | None,
        Text(form="date-time", max_length=64),
        Doc("When topics and lag last were other ones."),
    ] = None
