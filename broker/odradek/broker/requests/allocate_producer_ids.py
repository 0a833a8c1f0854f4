"""AllocateProducerIds (KIP-730): a broker's next block of producer ids. Served by controllers, to brokers alone."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.errors import StaleBrokerEpoch
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import AllocateProducerIdsRequest


async def handle(request: AllocateProducerIdsRequest, context: RequestContext[AdminParts]) -> Message:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    broker = context.broker.images.current.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise StaleBrokerEpoch(
            f"broker {request.broker_id} is not registered with the epoch {request.broker_epoch}."
        )
    first, count = await context.broker.active_controller.allocate_producer_ids()
    return context.response(error_code=0, producer_id_start=first, producer_id_len=count)
