"""Levels the load of a Cluster's brokers: plans, begins one batch of moves after another, stops and continues.

A plan takes moves under way as ended, so nothing is kept but how many batches may still begin. A batch begins only
while all brokers serve and no pod is replaced, filled or emptied. What is under way arrives beside a roll, as it does
beside one by hand: whether a pod may go is asked of its broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from odradek.client.admin.brokers import MovesRefused
from odradek.foundation.errors import OdradekError
from odradek.foundation.words import count
from odradek_operator.desired.names import BALANCE_ANNOTATION, PLAN_BALANCE_ANNOTATION
from odradek_operator.gateways.balancing import PlannedBalance
from odradek_operator.gateways.kubernetes import metadata
from odradek_operator.reconcilers.cluster.run import ReconcileRun, mark_contents_stale
from odradek_operator.resources.balance import (
    BROKERS_SHOWN_MAX,
    MOVES_SHOWN_MAX,
    BalanceMode,
    BalanceMove,
    BalanceState,
    BalanceStatus,
)
from odradek_operator.resources.conditions import Condition, condition, format_timestamp
from odradek_operator.resources.schema import quantity_value

BALANCING: Final = "Balancing"
LOOK_SECONDS: Final = 5.0
# Topics grow while partitions move, so a plan is never quite the rest of the one before.
_BATCHES_SHARE_MAX: Final = 2
_PERCENT: Final = 100
_MINUTE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceFound:
    """The state of a rebalance; `status` is None while there was none yet. `waiting` is why no batch begins."""

    status: BalanceStatus | None = None
    waiting: str | None = None
    is_suspended: bool = False
    unreachable: str | None = None
    again_seconds: float | None = None

    def state_condition(self) -> Condition | None:
        """The condition for it, while there is something to say."""
        status = self.status or BalanceStatus()
        if status.state is BalanceState.RUNNING:
            reason = "Waiting" if self.waiting else "Moving"
            left = f"{count(status.moving, 'partition')} moving, {status.queued} to follow"
            message = f"{left}, {describe_bytes(status.bytes_left)} left"
            return condition(
                BALANCING, True, reason, f"{message}. {self.waiting}" if self.waiting else message
            )
        if status.state is BalanceState.STOPPED or self.waiting:
            message = "spec.balance.suspend is true: without it the rebalance continues with what is left"
            return condition(BALANCING, False, "Suspended", message)
        if status.state is BalanceState.PLANNED and (status.total or status.leader_changes):
            message = f"{describe_plan(status)}. Annotate the Cluster with {BALANCE_ANNOTATION} to begin"
            return condition(BALANCING, False, "Planned", message)
        return None


async def balance_brokers(run: ReconcileRun, waits_for: str | None) -> BalanceFound:
    """Do the next step of a rebalance, if there is one. `waits_for` is why no batch may begin now."""
    before = run.before.balance or BalanceStatus()
    spec = run.context.spec.balance
    try:
        status = await _answer_plan_request(run, before)
        if spec.suspend:
            return await _suspend(run, status)
        status = await _begin_if_asked(run, status)
        if status.state is not BalanceState.RUNNING:
            again_seconds = _seconds_until_due(run, status)
            if again_seconds is None or again_seconds > 0:
                return BalanceFound(status=_none_if_empty(status), again_seconds=again_seconds)
            if waits_for is not None:
                return BalanceFound(status=_none_if_empty(status), again_seconds=LOOK_SECONDS)
            status = _clear_plan(status)
        return await _run_moves(run, status, waits_for)
    except OdradekError as failure:
        return BalanceFound(
            status=run.before.balance, unreachable=f"the brokers' load cannot be levelled now: {failure}"
        )


def describe_plan(status: BalanceStatus) -> str:
    """What a plan moves, in a sentence."""
    moves = "nothing moves"
    if status.total or status.leader_changes:
        size, leaders = describe_bytes(status.bytes_left), count(status.leader_changes, "leader")
        moves = f"{count(status.total, 'partition')} would move, {size}, and {leaders}"
    return f"{moves}; still uneven then: {describe_unmet(status)}" if status.unmet else moves


def describe_unmet(status: BalanceStatus) -> str:
    """What stays uneven, and the brokers that have no room for what would level it."""
    unmet = ", ".join(status.unmet)
    return f"{unmet} ({describe_without_room(status.without_room)})" if status.without_room else unmet


def describe_without_room(brokers: Sequence[int]) -> str:
    """The reason why brokers are given no more."""
    return f"too little free space for more on {', '.join(f'broker {one}' for one in brokers)}"


def describe_bytes(number: int) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1 << 10:
            return f"{number} {unit}"
        number = -(-number >> 10)
    return f"{number} TiB"


def with_plan(status: BalanceStatus, planned: PlannedBalance, now: datetime) -> BalanceStatus:
    """The status with a plan that nothing has begun of."""
    plan = planned.plan
    size_bytes = sum(plan.bytes_of.get(where, 0) for where in plan.moves)
    shown = list(plan.moves.items())[:MOVES_SHOWN_MAX]
    return replace(
        status,
        total=len(plan.moves),
        moving=0,
        queued=len(plan.moves),
        bytes_left=size_bytes,
        bytes_queued=size_bytes,
        leader_changes=plan.leader_moves,
        moves=tuple(
            BalanceMove(
                topic=where.topic,
                partition=where.partition,
                replicas=tuple(planned.load.partitions[where].replicas),
                target=tuple(replicas),
                bytes_to_move=plan.bytes_of.get(where, 0),
            )
            for where, replicas in shown
        ),
        unmet=tuple(goal.words for goal in plan.unmet),
        without_room=plan.without_room[:BROKERS_SHOWN_MAX],
        checked_at=format_timestamp(now),
    )


async def _answer_plan_request(run: ReconcileRun, status: BalanceStatus) -> BalanceStatus:
    """Make the plan that an annotation asks for, and change nothing on brokers."""
    asked = _read_annotation(run, PLAN_BALANCE_ANNOTATION)
    if not asked or asked == status.plan_request:
        return status
    status = replace(status, plan_request=asked)
    if status.state is BalanceState.RUNNING:
        return status  # Its plan is shown already.
    status = with_plan(status, await _plan(run), run.environment.now())
    if status.state is not BalanceState.STOPPED:
        status = replace(status, state=BalanceState.PLANNED)
    await run.report_event("BalancePlanned", describe_plan(status))
    return status


async def _suspend(run: ReconcileRun, status: BalanceStatus) -> BalanceFound:
    asked = _read_annotation(run, BALANCE_ANNOTATION)
    is_waiting = bool(asked) and asked != status.request
    if status.state is not BalanceState.RUNNING:
        waiting = "a rebalance was asked for" if is_waiting else None
        return BalanceFound(status=_none_if_empty(status), waiting=waiting)
    if run.scale.movement is not None:
        # Moves that fill a broker look the same, and would be cancelled with them.
        return BalanceFound(
            status=status, waiting="it stops once brokers are filled or emptied", again_seconds=LOOK_SECONDS
        )
    cancelled = await run.admin.stop_balancing(run.context.own_bootstrap)
    await mark_contents_stale(run.environment, run.key)
    await run.report_event("BalanceStopped", f"{count(cancelled, 'move')} cancelled")
    left = status.moving + status.queued
    stopped = replace(
        status, state=BalanceState.STOPPED, moving=0, queued=left, bytes_queued=status.bytes_left
    )
    return BalanceFound(status=stopped)


async def _begin_if_asked(run: ReconcileRun, status: BalanceStatus) -> BalanceStatus:
    asked = _read_annotation(run, BALANCE_ANNOTATION)
    is_asked = bool(asked) and asked != status.request
    if is_asked:
        status = replace(status, request=asked)
    if status.state is BalanceState.RUNNING or not (is_asked or status.state is BalanceState.STOPPED):
        return status
    return _clear_plan(status)


def _clear_plan(status: BalanceStatus) -> BalanceStatus:
    """The status of a rebalance that has no plan yet."""
    return replace(
        status,
        state=BalanceState.RUNNING,
        total=0,
        moving=0,
        queued=0,
        bytes_left=0,
        bytes_queued=0,
        moves=(),
    )


async def _run_moves(run: ReconcileRun, status: BalanceStatus, waits_for: str | None) -> BalanceFound:
    """Count what is under way; once it has arrived, begin the next batch or end."""
    under_way = await run.admin.count_balancing(run.context.own_bootstrap)
    if under_way.partitions or waits_for is not None:
        left = under_way.bytes_left + status.bytes_queued
        status = replace(status, moving=under_way.partitions, bytes_left=left)
        return BalanceFound(status=status, waiting=waits_for, again_seconds=LOOK_SECONDS)
    planned = await _plan(run)
    batches = list(planned.plan.batches())
    is_first = status.total == 0
    batches_left = _BATCHES_SHARE_MAX * len(batches) if is_first else status.batches_left
    arrived = status.total - status.queued
    status = with_plan(status, planned, run.environment.now())
    if not batches or not batches_left:
        return await _end(run, status, planned, arrived)
    if is_first:
        await run.report_event("BalanceBegan", describe_plan(status))
    (batch, *_) = batches
    size_bytes = sum(planned.plan.bytes_of[where] for where in batch)
    try:
        await run.admin.begin_balancing(
            run.context.own_bootstrap, batch, bytes_per_second=_bytes_per_second(run)
        )
    except MovesRefused as refusal:
        # The others have begun. The next plan is made without these, or tries them again.
        await run.report_event("BalanceMovesRefused", str(refusal), warning=True)
    status = replace(
        status,
        total=arrived + status.total,
        moving=len(batch),
        queued=status.queued - len(batch),
        bytes_queued=status.bytes_queued - size_bytes,
        batches_left=batches_left - 1,
    )
    return BalanceFound(status=status, again_seconds=LOOK_SECONDS)


async def _end(
    run: ReconcileRun, status: BalanceStatus, planned: PlannedBalance, arrived: int
) -> BalanceFound:
    """End a rebalance that has nothing left to do, or has begun as many batches as it may."""
    await run.admin.end_balancing(run.context.own_bootstrap, planned.plan.elections)
    if arrived or planned.plan.elections:
        await mark_contents_stale(run.environment, run.key)
        uneven = f"; still uneven: {describe_unmet(status)}" if status.unmet else ""
        await run.report_event("BalanceEnded", f"{count(arrived, 'partition')} moved{uneven}")
    done = replace(
        status, state=BalanceState.DONE, total=arrived, queued=0, bytes_left=0, bytes_queued=0, batches_left=0
    )
    return BalanceFound(status=done, again_seconds=_seconds_until_due(run, done))


async def _plan(run: ReconcileRun) -> PlannedBalance:
    tolerance = run.context.spec.balance.tolerance_percent / _PERCENT
    return await run.admin.plan_balance(run.context.own_bootstrap, tolerance=tolerance)


def _seconds_until_due(run: ReconcileRun, status: BalanceStatus) -> float | None:
    """When a Cluster plans by itself again; None where it does not."""
    spec = run.context.spec.balance
    if spec.mode is not BalanceMode.AUTO:
        return None
    if status.checked_at is None:
        return 0.0
    since = run.environment.now() - datetime.fromisoformat(status.checked_at.replace("Z", "+00:00"))
    return max(spec.interval_minutes * _MINUTE_SECONDS - since.total_seconds(), 0.0)


def _read_annotation(run: ReconcileRun, annotation: str) -> str:
    annotations: Mapping[str, Any] = metadata(run.body).get("annotations") or {}
    return str(annotations.get(annotation) or "")


def _bytes_per_second(run: ReconcileRun) -> int | None:
    rate = run.context.spec.brokers.move_rate
    return None if rate is None else max(1, int(quantity_value(rate)))


def _none_if_empty(status: BalanceStatus) -> BalanceStatus | None:
    return None if status == BalanceStatus() else status
