"""DeleteShareGroupState: the group coordinator has the states of share-partitions removed."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ShareStateParts
from odradek.broker.requests.shares.state_answers import change_states
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import DeleteShareGroupStateRequest


async def handle(request: DeleteShareGroupStateRequest, context: RequestContext[ShareStateParts]) -> Message:
    shares = context.broker.shares
    return await change_states(request, context, lambda key, _: shares.delete(key))
