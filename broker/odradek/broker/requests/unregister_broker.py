"""UnregisterBroker: forget a broker that was taken out for good, as `kafka-cluster unregister` asks for.

Apache Kafka also forgets a broker that is alive or has replicas. Here such a request is refused.
"""

from __future__ import annotations

from odradek.broker.requests import change_log
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ReplicaParts
from odradek.foundation.errors import RequestError
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import UnregisterBrokerRequest


async def handle(request: UnregisterBrokerRequest, context: RequestContext[ReplicaParts]) -> Message:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    try:
        await context.broker.leadership.unregister_broker(request.broker_id)
    except RequestError as error:
        return context.response(**error_fields(error))
    change_log.log_removed_broker(context, request.broker_id)
    return context.response(**error_fields(None))
