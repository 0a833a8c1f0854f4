"""WriteShareGroupState: leaders of share-partitions have stored what was acknowledged."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ShareStateParts
from odradek.broker.requests.shares.state_answers import ChangeOutcome, change_states
from odradek.broker.share_states.states import ShareKey, StateChange, StateRange
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import (
    WriteShareGroupStatePartitionData,
    WriteShareGroupStateRequest,
)


async def handle(request: WriteShareGroupStateRequest, context: RequestContext[ShareStateParts]) -> Message:
    shares = context.broker.shares

    def write(key: ShareKey, one: WriteShareGroupStatePartitionData) -> ChangeOutcome:
        batches = [
            StateRange(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in one.state_batches
        ]
        change = StateChange(
            one.state_epoch, one.leader_epoch, one.start_offset, one.delivery_complete_count, batches
        )
        return shares.write(key, change)

    return await change_states(request, context, write)
