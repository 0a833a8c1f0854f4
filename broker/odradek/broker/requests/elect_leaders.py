"""ElectLeaders (KIP-460): the preferred leaders, or any live replica of partitions that have no leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import ReplicaParts
from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turns import Leftovers, Turn
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import ElectLeadersRequest

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


async def handle(request: ElectLeadersRequest, context: RequestContext[ReplicaParts]) -> Message:
    """Runs in a controller: `context.broker` is its `ControllerParts`."""
    election_type = request.election_type
    if election_type not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequest(f"Unknown election type {election_type}; 0 is preferred, 1 is unclean.")
    async with Leftovers() as kept:
        turn = Turn()
        wanted: list[TopicPartition] | None = None
        if request.topic_partitions is not None:
            wanted = []
            kept.until_end(wanted)
            for topic in request.topic_partitions:
                for number in topic.partitions:
                    if turn.is_over():
                        await turn.next()
                    wanted.append(TopicPartition(topic.topic, number))
        outcomes = kept.until_end(
            await context.broker.leadership.elect(wanted, unclean=election_type == _UNCLEAN)
        )
        # A request for all topics gets each of them, with the partitions that needed an election.
        topics: dict[str, list[tuple[int, RequestError | None]]] = kept.until_end({})
        for name in context.broker.images.current.topics if wanted is None else ():
            if turn.is_over():
                await turn.next()
            topics[name] = []
        for where, outcome in outcomes.items():
            if turn.is_over():
                await turn.next()
            topics.setdefault(where.topic, []).append((where.partition, outcome))
        return await make_in_turns(
            context,
            len(topics) + len(outcomes),
            lambda: context.response(error_code=0, replica_election_results=_rows(topics)),
        )


def _rows(
    topics: Mapping[str, Iterable[tuple[int, RequestError | None]]],
) -> Iterator[dict[str, object]]:
    for topic, partitions in topics.items():
        rows = ({"partition_id": number, **error_fields(outcome)} for number, outcome in partitions)
        yield {"topic": topic, "partition_result": rows}
