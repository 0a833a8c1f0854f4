"""ElectLeaders (KIP-460): the preferred leaders, or any live replica of partitions that have no leader."""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.handlers.context import SharedContext
from odradek.protocol.api import ApiKey
from odradek.protocol.errors import error_code, error_message
from odradek.protocol.messages import Message, response
from odradek.protocol.requests.cluster import ElectLeadersRequest
from odradek.transport.pending import Pending

API: Final = ApiKey.ELECT_LEADERS
_PREFERRED: Final = 0
_UNCLEAN: Final = 1


def handle(request: ElectLeadersRequest, context: SharedContext) -> Pending[Message]:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    election_type = request.election_type
    if election_type not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequest(f"Unknown election type {election_type}; 0 is preferred, 1 is unclean.")
    return Pending(_elect(request, context, is_unclean=election_type == _UNCLEAN))


async def _elect(request: ElectLeadersRequest, context: SharedContext, *, is_unclean: bool) -> Message:
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, number)
            for topic in request.topic_partitions
            for number in topic.partitions
        ]
    outcomes = await context.broker.leadership.elect(wanted, unclean=is_unclean)
    # A request for all topics gets each of them, with the partitions that needed an election.
    everything = context.broker.images.current.topics if wanted is None else ()
    topics: dict[str, list[dict[str, object]]] = {name: [] for name in everything}
    for where, outcome in outcomes.items():
        topics.setdefault(where.topic, []).append(
            {
                "partition_id": where.partition,
                "error_code": error_code(outcome),
                "error_message": error_message(outcome),
            }
        )
    return response(
        API,
        context.header.api_version,
        error_code=0,
        replica_election_results=[
            {"topic": topic, "partition_result": partitions} for topic, partitions in topics.items()
        ],
    )
