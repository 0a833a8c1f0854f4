"""ElectLeaders (KIP-460): the preferred leaders, or any live replica of partitions that have no leader."""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.handlers.context import SharedContext
from odradek.handlers.failures import error_fields
from odradek.protocol.messages import Message
from odradek.protocol.requests.cluster import ElectLeadersRequest

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


async def handle(request: ElectLeadersRequest, context: SharedContext) -> Message:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    election_type = request.election_type
    if election_type not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequest(f"Unknown election type {election_type}; 0 is preferred, 1 is unclean.")
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, number)
            for topic in request.topic_partitions
            for number in topic.partitions
        ]
    outcomes = await context.broker.leadership.elect(wanted, unclean=election_type == _UNCLEAN)
    # A request for all topics gets each of them, with the partitions that needed an election.
    everything = context.broker.images.current.topics if wanted is None else ()
    topics: dict[str, list[dict[str, object]]] = {name: [] for name in everything}
    for where, outcome in outcomes.items():
        topics.setdefault(where.topic, []).append({"partition_id": where.partition, **error_fields(outcome)})
    return context.response(
        error_code=0,
        replica_election_results=[
            {"topic": topic, "partition_result": partitions} for topic, partitions in topics.items()
        ],
    )
