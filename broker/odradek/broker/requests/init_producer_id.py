"""InitProducerId: a producer id and an epoch, which identify the batches of one producer.

The controller allocates the ids in blocks, so none is returned twice, also after a restart. With a transactional id the
transaction coordinator answers: the same id is answered with a new epoch, which fences older instances.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import TransactionParts
from odradek.broker.transactions.decisions import ProducerIdentity
from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.transaction_errors import InvalidProducerEpoch, ProducerFenced
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message, milliseconds
from odradek.wire.protocol.requests.cluster import InitProducerIdRequest

_NONE: Final = -1
_NOBODY: Final = ProducerIdentity(_NONE, _NONE)
_FIRST_VERSION_WITH_FENCED: Final = 4


async def handle(request: InitProducerIdRequest, context: RequestContext[TransactionParts]) -> Message:
    version = context.header.api_version
    failure: RequestError | None = None
    found = _NOBODY
    try:
        if request.transactional_id is None:
            found = ProducerIdentity(await context.broker.producer_ids.next(), 0)
        else:
            found = await _initialize_producer(request.transactional_id, request, context)
    except ProducerFenced as error:
        failure = error if version >= _FIRST_VERSION_WITH_FENCED else InvalidProducerEpoch(str(error))
    except RequestError as error:
        failure = error
    return context.response(
        error_code=error_code(failure), producer_id=found.producer_id, producer_epoch=found.producer_epoch
    )


async def _initialize_producer(
    name: str, request: InitProducerIdRequest, context: RequestContext[TransactionParts]
) -> ProducerIdentity:
    given = ProducerIdentity(request.producer_id, request.producer_epoch)
    if (given.producer_id == _NONE) != (given.producer_epoch == _NONE):
        raise InvalidRequest(
            f"The producer id {given.producer_id} and the epoch {given.producer_epoch} must both be there or be -1."
        )
    return await context.broker.transactions.initialize(
        name, timeout_ms=milliseconds(request.transaction_timeout), given=None if given == _NOBODY else given
    )
