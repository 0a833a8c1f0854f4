"""ListTransactions (KIP-664): the transactional ids that this broker coordinates.

Version 1 filters by how long a transaction is open, version 2 by a pattern of the id.
"""

from __future__ import annotations

from odradek.foundation.errors import OdradekError
from odradek.handlers.context import RequestContext
from odradek.protocol.errors import error_code
from odradek.protocol.messages import Message
from odradek.protocol.requests.transactions import ListTransactionsRequest
from odradek.transactions.listing import TransactionFilter


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
