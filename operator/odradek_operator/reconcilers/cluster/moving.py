"""Carries out what `scaling` decides: brokers that were added are filled, those that are to go are emptied."""

from __future__ import annotations

from odradek.foundation.errors import InvalidReplicationFactor, OdradekError
from odradek_operator.reconcilers.cluster import rolling, scaling
from odradek_operator.reconcilers.cluster.look import Look
from odradek_operator.resources.schema import quantity_value


async def move_partitions(look: Look) -> None:
    """Fill brokers that were added, empty those that are to go."""
    look.movement = look.scale.movement
    if look.movement is None:
        return
    rate = look.context.spec.brokers.move_rate
    bytes_per_second = None if rate is None else max(1, int(quantity_value(rate)))
    try:
        await _move(look, bytes_per_second)
    except InvalidReplicationFactor as refusal:
        look.moving_problem = f"brokers cannot be emptied: {refusal}"
    except OdradekError as failure:
        look.unreachable = f"partitions cannot be moved now: {failure}"


async def _move(look: Look, bytes_per_second: int | None) -> None:
    bootstrap, movement = look.context.bootstrap, look.movement
    assert movement is not None
    if look.scale.stop_drain:
        await look.admin.stop_drain(bootstrap, look.scale.stop_drain)
    if movement.reason == scaling.Reason.DOWN:
        await look.admin.check_drain(bootstrap, movement.brokers)
        left = await look.admin.drain(bootstrap, movement.brokers, bytes_per_second=bytes_per_second)
        look.movement = scaling.progressed(movement, begun=0, left=left)
        return
    serving = {pod.broker for pod in look.pods if pod.ready}
    if not serving.issuperset(movement.brokers):
        return
    begun = await look.admin.spread(bootstrap, movement.brokers, bytes_per_second=bytes_per_second)
    left = await look.admin.arriving(bootstrap, movement.brokers)
    look.movement = scaling.progressed(movement, begun=begun, left=left)
    if not begun and not left:
        look.movement = None
        if bytes_per_second is not None:
            await look.admin.end_throttle(bootstrap)
        which = rolling.named(tuple(str(broker) for broker in movement.brokers))
        await look.wake_contents()
        await look.environment.report_event(
            look.body, "BrokersFilled", f"brokers {which} have their share of all partitions"
        )
