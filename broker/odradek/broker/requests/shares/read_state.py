"""ReadShareGroupState: a leader of share-partitions reads what was stored, and fences the leaders before it."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ShareStateParts
from odradek.broker.requests.shares.state_answers import answer_states
from odradek.broker.share_states.states import ShareKey
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import ReadShareGroupStatePartitionData, ReadShareGroupStateRequest


async def handle(request: ReadShareGroupStateRequest, context: RequestContext[ShareStateParts]) -> Message:
    shares = context.broker.shares

    async def read(key: ShareKey, one: ReadShareGroupStatePartitionData) -> Mapping[str, object]:
        state = await shares.read(key, leader_epoch=one.leader_epoch)
        return {
            "state_epoch": state.state_epoch,
            "start_offset": state.start_offset,
            "state_batches": [batch._asdict() for batch in state.batches],
        }

    return await answer_states(request, context, read)
