"""AllocateProducerIds (KIP-730): a broker's next block of producer ids. Served by controllers, to brokers alone."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from odradek.foundation.errors import StaleBrokerEpoch
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.ALLOCATE_PRODUCER_IDS
VERSIONS: Final = (0, 0)


def handle(request: Any, context: Any) -> Awaitable[Any]:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    broker = context.broker.images.current.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise StaleBrokerEpoch(
            f"broker {request.broker_id} is not registered with the epoch {request.broker_epoch}."
        )
    return _allocate(context)


async def _allocate(context: Any) -> Any:
    first, count = await context.broker.controller.allocate_producer_ids()
    return messages.response(
        API, context.header.api_version, error_code=0, producer_id_start=first, producer_id_len=count
    )
