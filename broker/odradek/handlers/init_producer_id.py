"""InitProducerId: a producer id, which identifies the batches of one idempotent producer.

The controller allocates the ids in blocks, so none is returned twice, also after a restart. Transactional ids need a
transaction coordinator, which this broker does not have yet: they are refused with a message that says so.
"""

from __future__ import annotations

import logging

from odradek.foundation.errors import InvalidRequest, TransactionalIdAuthorizationFailed
from odradek.handlers.context import RequestContext
from odradek.protocol.api import ApiKey
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.cluster import InitProducerIdRequest
from odradek.transport.pending import Pending

logger = logging.getLogger(__name__)


def handle(request: InitProducerIdRequest, context: RequestContext) -> Pending[Message]:
    if request.transactional_id == "":
        raise InvalidRequest(
            "The transactional id must not be empty; leave it out for an idempotent producer."
        )
    if request.transactional_id is not None:
        logger.warning(
            "%r of %r wants the transactional id %r, but this broker has no transactions yet: "
            "leave transactional.id out and keep enable.idempotence",
            context.connection.client_id,
            context.connection,
            request.transactional_id,
        )
        raise TransactionalIdAuthorizationFailed(
            "This broker has no transactions yet; leave transactional.id out."
        )
    return Pending(_new_id(context))


async def _new_id(context: RequestContext) -> Message:
    producer_id = await context.broker.producer_ids.next()
    return response(
        ApiKey.INIT_PRODUCER_ID,
        context.header.api_version,
        error_code=error_code(None),
        producer_id=producer_id,
        producer_epoch=0,
    )
