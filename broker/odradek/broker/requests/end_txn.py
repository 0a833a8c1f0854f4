"""EndTxn: commit or abort a transaction. From version 5 on the answer has the producer's next epoch (KIP-890)."""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import TransactionParts
from odradek.broker.transactions.decisions import ProducerIdentity
from odradek.broker.transactions.metadata import TV0, TV2
from odradek.foundation.transaction_errors import InvalidProducerEpoch, ProducerFenced
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import EndTxnRequest

_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_WITH_EPOCH: Final = 5


async def handle(request: EndTxnRequest, context: RequestContext[TransactionParts]) -> Message:
    version = context.header.api_version
    try:
        ended = await context.broker.transactions.end(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            client_version=TV2 if version >= _FIRST_VERSION_WITH_EPOCH else TV0,
        )
    except ProducerFenced as error:
        if version < _FIRST_VERSION_WITH_FENCED:
            raise InvalidProducerEpoch(str(error)) from error
        raise
    return context.response(error_code=0, producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
