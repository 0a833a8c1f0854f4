"""ListTransactions (KIP-664): the transactional ids that this broker coordinates.

Version 1 filters by how long a transaction is open, version 2 by a pattern of the id.
"""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.transactions.listing import TransactionFilter
from odradek.foundation.errors import OdradekError
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import ListTransactionsRequest


def handle(request: ListTransactionsRequest, context: RequestContext) -> Message:
    wanted = TransactionFilter(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        duration_ms=request.duration_filter,
        pattern=request.transactional_id_pattern,
    )
    try:
        rows, unknown = context.broker.transactions.listing.transactions(wanted)
    except OdradekError as error:
        return context.response(error_code=error_code(error))
    return context.response(
        error_code=0,
        unknown_state_filters=unknown,
        transaction_states=[
            {
                "transactional_id": row.transactional_id,
                "producer_id": row.producer_id,
                "transaction_state": row.state,
            }
            for row in rows
        ],
    )
