"""DescribeTransactions (KIP-664): the state of single transactional ids that this broker coordinates."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import TransactionParts
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import by_topic
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.transactions import DescribeTransactionsRequest


def handle(request: DescribeTransactionsRequest, context: RequestContext[TransactionParts]) -> Message:
    return context.response(
        transaction_states=[_describe_transaction(name, context) for name in request.transactional_ids]
    )


def _describe_transaction(name: str, context: RequestContext[TransactionParts]) -> dict[str, object]:
    try:
        found = context.broker.transactions.listing.describe(name)
    except OdradekError as error:
        return {"error_code": error_code(error), "transactional_id": name}
    return {
        "error_code": 0,
        "transactional_id": name,
        "transaction_state": found.state.title,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.start_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": numbers}
            for topic, numbers in by_topic(sorted(found.partitions)).items()
        ],
    }
