"""ReadShareGroupStateSummary: where states begin, without what was delivered."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ShareStateParts
from odradek.broker.requests.shares.state_answers import answer_states
from odradek.broker.share_states.states import ShareKey
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.shares import (
    ReadShareGroupStateSummaryPartitionData,
    ReadShareGroupStateSummaryRequest,
)


async def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext[ShareStateParts]
) -> Message:
    shares = context.broker.shares

    async def summarize(key: ShareKey, _: ReadShareGroupStateSummaryPartitionData) -> Mapping[str, object]:
        return shares.summarize(key)._asdict()

    return await answer_states(request, context, summarize)
