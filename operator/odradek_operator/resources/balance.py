"""The balance of a Cluster's brokers: when their load is levelled, and how far that is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from odradek_operator.resources.schema import INT64_MAX, Choice, Flag, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested

MOVES_SHOWN_MAX: Final = 64
BROKERS_SHOWN_MAX: Final = 64
_REPLICAS_MAX: Final = 128
_INTERVAL_MINUTES_MAX: Final = 60 * 24 * 30


class BalanceMode(StrEnum):
    """What begins a rebalance."""

    MANUAL = "Manual"
    AUTO = "Auto"


class BalanceState(StrEnum):
    """How far a rebalance is."""

    PLANNED = "Planned"
    RUNNING = "Running"
    STOPPED = "Stopped"
    DONE = "Done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The policy for levelling brokers' load."""

    mode: Annotated[
        BalanceMode,
        Choice(BalanceMode),
        Doc(
            "`Manual`: with each new value of the annotation odradek.io/balance. `Auto`: also by itself, when a plan "
            "of every `intervalMinutes` would move something. Either way brokers that are added are filled."
        ),
    ] = BalanceMode.MANUAL
    interval_minutes: Annotated[
        int,
        Whole(minimum=1, maximum=_INTERVAL_MINUTES_MAX),
        Doc("How many minutes after a plan or a rebalance `Auto` plans again."),
    ] = 60
    tolerance_percent: Annotated[
        int,
        Whole(minimum=1, maximum=100),
        Doc("How far brokers may be from their share before anything moves."),
    ] = 5
    suspend: Annotated[
        bool,
        Flag(),
        Doc(
            "Stop: moves of a rebalance that are under way are cancelled, and none begins. What has arrived stays. "
            "Without it the rebalance continues with a plan for what is left."
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceMove:
    """A partition of a plan."""

    topic: Annotated[str, Text(), Doc("The topic.")]
    partition: Annotated[int, Whole(), Doc("The partition.")]
    replicas: Annotated[
        tuple[int, ...],
        Listing(Whole(), max_items=_REPLICAS_MAX),
        Doc("The brokers that have it, the preferred leader first."),
    ]
    target: Annotated[
        tuple[int, ...], Listing(Whole(), max_items=_REPLICAS_MAX), Doc("The brokers that are to have it.")
    ]
    bytes_to_move: Annotated[
        int, Whole(maximum=INT64_MAX), Doc("How many bytes that brings to other brokers.")
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceStatus:
    """The last plan, and how far it is carried out."""

    state: Annotated[
        BalanceState | None,
        Choice(BalanceState),
        Doc(
            "`Planned`: nothing moves, and `moves` are what would. `Running`. `Stopped`: by `suspend`. `Done`."
        ),
    ] = None
    request: Annotated[
        str | None,
        Text(max_length=4096),
        Doc("The last value of the annotation odradek.io/balance that was begun."),
    ] = None
    plan_request: Annotated[
        str | None,
        Text(max_length=4096),
        Doc("The last value of the annotation odradek.io/plan-balance that was answered."),
    ] = None
    total: Annotated[int, Whole(), Doc("How many partitions have to move, or had to.")] = 0
    moving: Annotated[int, Whole(), Doc("How many are on their way now.")] = 0
    queued: Annotated[int, Whole(), Doc("How many are in later batches.")] = 0
    bytes_left: Annotated[
        int,
        Whole(maximum=INT64_MAX),
        Doc("How many bytes have yet to arrive, those of later batches included."),
    ] = 0
    bytes_queued: Annotated[int, Whole(maximum=INT64_MAX), Doc("How many of them are in later batches.")] = 0
    leader_changes: Annotated[int, Whole(), Doc("How many partitions get another leader by the plan.")] = 0
    batches_left: Annotated[
        int,
        Whole(),
        Doc(
            "How many batches may still begin. Topics grow while partitions move, and a rebalance ends all the same."
        ),
    ] = 0
    moves: Annotated[
        tuple[BalanceMove, ...],
        Listing(Nested(BalanceMove), max_items=MOVES_SHOWN_MAX),
        Doc("The first 64 moves of the plan, in their order."),
    ] = ()
    unmet: Annotated[
        tuple[str, ...], Listing(Text(), max_items=8), Doc("What stays uneven after the plan.")
    ] = ()
    without_room: Annotated[
        tuple[int, ...],
        Listing(Whole(), max_items=BROKERS_SHOWN_MAX),
        Doc(
            "The first 64 brokers that the plan gives no more because their volumes have too little free space."
        ),
    ] = ()
    checked_at: Annotated[
        str | None, Text(form="date-time", max_length=64), Doc("When the last plan was made.")
    ] = None
