"""AllocateProducerIds (KIP-730): a broker's next block of producer ids. Served by controllers, to brokers alone."""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import StaleBrokerEpoch
from odradek.handlers.context import SharedContext
from odradek.protocol.api import ApiKey
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.cluster import AllocateProducerIdsRequest
from odradek.transport.pending import Pending

API: Final = ApiKey.ALLOCATE_PRODUCER_IDS


def handle(request: AllocateProducerIdsRequest, context: SharedContext) -> Pending[Message]:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    broker = context.broker.images.current.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise StaleBrokerEpoch(
            f"broker {request.broker_id} is not registered with the epoch {request.broker_epoch}."
        )
    return Pending(_allocate(context))


async def _allocate(context: SharedContext) -> Message:
    first, count = await context.broker.controller.allocate_producer_ids()
    return response(
        API, context.header.api_version, error_code=0, producer_id_start=first, producer_id_len=count
    )
