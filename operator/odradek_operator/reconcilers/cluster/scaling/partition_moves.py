"""Carries out what `scaling` decides: brokers that were added are filled, and those that are to go are emptied. The
cluster forgets them once they are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from odradek.foundation.errors import InvalidReplicationFactor, OdradekError
from odradek_operator.reconcilers.cluster.facts import BrokerPod
from odradek_operator.reconcilers.cluster.restart_words import format_names
from odradek_operator.reconcilers.cluster.run import ReconcileRun, mark_contents_stale
from odradek_operator.reconcilers.cluster.scaling import broker_count
from odradek_operator.reconcilers.cluster.scaling.balancing import describe_without_room
from odradek_operator.resources.cluster_status import Movement
from odradek_operator.resources.schema import quantity_value

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFound:
    """The progress of a movement. `problem` forbids it; `unreachable` is why the brokers could not be asked.

    With `is_held` it has not been looked at: it waits for other brokers.
    """

    movement: Movement | None = None
    is_held: bool = False
    problem: str | None = None
    unreachable: str | None = None


async def move_partitions(run: ReconcileRun, pods: Sequence[BrokerPod]) -> MoveFound:
    """Fill brokers that were added, empty those that are to go."""
    movement = run.scale.movement
    if movement is None:
        return MoveFound()
    rate = run.context.spec.brokers.move_rate
    bytes_per_second = None if rate is None else max(1, int(quantity_value(rate)))
    try:
        if run.scale.stop_drain:
            await run.admin.stop_drain(run.context.own_bootstrap, run.scale.stop_drain)
        if movement.reason == broker_count.Reason.DOWN:
            staying = set(run.scale.brokers) - set(movement.brokers)
            if run.context.pools and not staying.issubset(pod.broker for pod in pods if pod.ready):
                return MoveFound(
                    movement=movement, is_held=True
                )  # What leaves a pool may have to go to the pods of another.
            return MoveFound(movement=await _drain_brokers(run, movement, bytes_per_second))
        return MoveFound(movement=await _fill_brokers(run, movement, pods, bytes_per_second))
    except InvalidReplicationFactor as refusal:
        return MoveFound(movement=movement, problem=f"brokers cannot be emptied: {refusal}")
    except OdradekError as failure:
        return MoveFound(movement=movement, unreachable=f"partitions cannot be moved now: {failure}")


async def _drain_brokers(run: ReconcileRun, movement: Movement, bytes_per_second: int | None) -> Movement:
    bootstrap = run.context.own_bootstrap
    await run.admin.check_drain(bootstrap, movement.brokers)
    left = await run.admin.drain_brokers(bootstrap, movement.brokers, bytes_per_second=bytes_per_second)
    return broker_count.update_movement(movement, begun=0, left=left)


async def _fill_brokers(
    run: ReconcileRun, movement: Movement, pods: Sequence[BrokerPod], bytes_per_second: int | None
) -> Movement | None:
    """The movement after this step; None when it has ended."""
    bootstrap = run.context.own_bootstrap
    serving = {pod.broker for pod in pods if pod.ready}
    if not serving.issuperset(movement.brokers):
        return movement
    filling = await run.admin.fill_brokers(bootstrap, movement.brokers, bytes_per_second=bytes_per_second)
    left = await run.admin.count_arriving(bootstrap, movement.brokers)
    if filling.begun or left:
        return broker_count.update_movement(movement, begun=filling.begun, left=left)
    if bytes_per_second is not None:
        await run.admin.end_throttle(bootstrap)
    which = format_names(tuple(str(broker) for broker in movement.brokers))
    await mark_contents_stale(run.environment, run.key)
    if filling.without_room:
        reason = describe_without_room(filling.without_room)
        message = f"brokers {which} have less than their share of all partitions: {reason}"
        await run.report_event("BrokersNotFilled", message, warning=True)
    else:
        await run.report_event("BrokersFilled", f"brokers {which} have their share of all partitions")
    return None


async def forget_removed_brokers(run: ReconcileRun) -> None:
    """Have the cluster forget brokers whose pods are gone, so that it places nothing there.

    Their pods take a while to end, so every run looks, and this one does not wait. The next one asks again.
    """
    try:
        forgotten = await run.admin.forget_brokers(run.context.own_bootstrap, keep=run.context.broker_ids)
    except OdradekError as failure:
        logger.info("brokers that were removed are not forgotten yet: %s", failure)
        return
    for broker in forgotten:
        await run.report_event("BrokerForgotten", f"the cluster no longer counts on broker {broker}")
