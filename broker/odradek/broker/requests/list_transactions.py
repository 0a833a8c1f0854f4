"""ListTransactions (KIP-664): the transactional ids that this broker coordinates.

Version 1 filters by how long a transaction is open, version 2 by a pattern of the id.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import TransactionParts
from odradek.broker.transactions.listing import ListedTransaction, TransactionFilter, filter_by
from odradek.foundation.errors import OdradekError
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.network.pending import Pending
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import ListTransactionsRequest


def handle(
    request: ListTransactionsRequest, context: RequestContext[TransactionParts]
) -> Message | Pending[Message]:
    if _names(request) > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_list_by_many(request, context))
    wanted = _filter(request)
    try:
        rows = context.broker.transactions.listing.transactions(wanted)
    except OdradekError as error:
        return context.response(error_code=error_code(error))
    return _answer(context, rows, wanted)


async def _list_by_many(
    request: ListTransactionsRequest, context: RequestContext[TransactionParts]
) -> Message:
    """With filters of many names or ids: the thread reads them, and writes the unknown ones."""
    wanted = await make_in_turns(context, _names(request), lambda: _filter(request))
    try:
        rows = context.broker.transactions.listing.transactions(wanted)
    except OdradekError as error:
        return context.response(error_code=error_code(error))
    return await make_in_turns(
        context, len(rows) + len(wanted.unknown_states), lambda: _answer(context, rows, wanted)
    )


def _names(request: ListTransactionsRequest) -> int:
    return len(request.state_filters) + len(request.producer_id_filters)


def _filter(request: ListTransactionsRequest) -> TransactionFilter:
    return filter_by(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        duration_ms=request.duration_filter,
        pattern=request.transactional_id_pattern,
    )


def _answer(
    context: RequestContext[TransactionParts], rows: Sequence[ListedTransaction], wanted: TransactionFilter
) -> Message:
    return context.response(
        error_code=0,
        unknown_state_filters=wanted.unknown_states,
        transaction_states=[
            {
                "transactional_id": row.transactional_id,
                "producer_id": row.producer_id,
                "transaction_state": row.state,
            }
            for row in rows
        ],
    )
