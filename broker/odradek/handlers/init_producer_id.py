"""InitProducerId: a number that tells an idempotent producer's batches from all others'.

Numbers come in blocks from the controller, so that none is given out twice, also after a restart.
Transactional ids need a transaction coordinator, which this broker does not have yet: they are refused in
words.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from odradek.foundation.errors import InvalidRequest, TransactionalIdAuthorizationFailed
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

logger = logging.getLogger(__name__)

VERSIONS: Final = (0, 5)


def handle(request: Any, context: RequestContext) -> Any:
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
    return _new_id(context)


async def _new_id(context: RequestContext) -> Any:
    producer_id = await context.broker.producer_ids.next()
    return messages.response(
        ApiKey.INIT_PRODUCER_ID,
        context.header.api_version,
        error_code=error_code(None),
        producer_id=producer_id,
        producer_epoch=0,
    )
