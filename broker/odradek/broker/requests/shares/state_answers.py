"""The answers of a share coordinator: one for each partition of each topic that a request names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ShareStateParts
from odradek.broker.share_states.states import ShareKey
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.wire.protocol.messages import Message

ChangeOutcome = OdradekError | Awaitable[OdradekError | None] | None


class _Partition(Protocol):
    partition: int


PartitionT = TypeVar("PartitionT", bound=_Partition)
PartitionT_co = TypeVar("PartitionT_co", bound=_Partition, covariant=True)


class _Topic(Protocol[PartitionT_co]):
    @property
    def topic_id(self) -> UUID | None: ...

    @property
    def partitions(self) -> Sequence[PartitionT_co]: ...


class StateRequest(Protocol[PartitionT_co]):
    """A request about states of one group."""

    @property
    def group_id(self) -> str: ...

    @property
    def topics(self) -> Sequence[_Topic[PartitionT_co]]: ...


async def answer_states(
    request: StateRequest[PartitionT],
    context: RequestContext[ShareStateParts],
    ask: Callable[[ShareKey, PartitionT], Awaitable[Mapping[str, object]]],
) -> Message:
    """The answer with what `ask` gives for each partition, or the error that it raises."""
    results = []
    for topic in request.topics:
        rows = []
        for partition in topic.partitions:
            try:
                if topic.topic_id is None:
                    raise InvalidRequest("The topic id cannot be null.")
                key = ShareKey(request.group_id, topic.topic_id, partition.partition)
                fields = await ask(key, partition)
            except OdradekError as error:
                fields = error_fields(error)
            rows.append({"partition": partition.partition, **fields})
        results.append({"topic_id": topic.topic_id, "partitions": rows})
    return context.response(results=results)


async def change_states(
    request: StateRequest[PartitionT],
    context: RequestContext[ShareStateParts],
    change: Callable[[ShareKey, PartitionT], ChangeOutcome],
) -> Message:
    """The answer to changes. All are begun before the first is waited for, so they are written together."""
    begun = {
        (topic.topic_id, partition.partition): change(
            ShareKey(request.group_id, topic.topic_id, partition.partition), partition
        )
        for topic in request.topics
        if topic.topic_id is not None
        for partition in topic.partitions
    }

    async def ask(key: ShareKey, _: PartitionT) -> Mapping[str, object]:
        outcome = begun[key.topic_id, key.partition]
        error = await outcome if isinstance(outcome, Awaitable) else outcome
        begun[key.topic_id, key.partition] = error
        return error_fields(error)

    return await answer_states(request, context, ask)
