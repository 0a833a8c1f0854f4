"""Acknowledgements of ShareFetch and ShareAcknowledge: they are checked, made in each share-partition, and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import SharesParts
from odradek.broker.shares.acknowledgement import AcknowledgedBatch, AcknowledgeType
from odradek.broker.shares.sessions import SessionKey, Target
from odradek.broker.shares.share_counts import ShareCounts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidRequest, RequestError, UnsupportedVersion
from odradek.foundation.security_errors import TopicAuthorizationFailed
from odradek.foundation.turns import Turn
from odradek.metadata.image.features import SHARE_VERSION

# Whether the client may read the topic with this id; one that is not known may be read: it has an error of its own.
MayRead = Callable[[UUID], bool]

_FIRST_WITH_RENEWAL: Final = 2
_MEMBER_ID_LENGTH_MAX: Final = 36
# Offsets that a turn acknowledges: each may be a record with a state of its own.
_OFFSETS_PER_TURN_MAX: Final = 1000
NO_TOPIC: Final = UUID(int=0)


class AskedBatch(Protocol):
    """Offsets of a request with their acknowledge types."""

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class AskedPartition(Protocol):
    """A partition of either request."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AskedBatch]: ...


class AcknowledgedTopic(Protocol):
    """A topic of either request."""

    topic_id: UUID | None

    @property
    def partitions(self) -> Sequence[AskedPartition]: ...


def everyone_may_read(_: UUID) -> bool:
    """Where there is no authorizer."""
    return True


def check_member(
    context: RequestContext[SharesParts], group_id: str | None, member_id: str | None
) -> SessionKey:
    """Whose session it is. Raises UnsupportedVersion without the feature, InvalidRequest."""
    if context.broker.images.current.features.level(SHARE_VERSION) < 1:
        raise UnsupportedVersion("The cluster has no share groups: share.version is 0.")
    if group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    if not member_id or len(member_id) > _MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest("Invalid member id in the request.")
    return SessionKey(group_id, member_id)


def has_acknowledgements(topics: Iterable[AcknowledgedTopic]) -> bool:
    return any(asked.acknowledgement_batches for topic in topics for asked in topic.partitions)


class Acknowledging:
    """Acknowledgements that are made, and may not be stored yet: the outcome for each partition."""

    def __init__(self, counts: ShareCounts) -> None:
        self._counts = counts
        self.made: dict[Target, list[AcknowledgedBatch]] = {}
        self.outcomes: dict[Target, Exception | None] = {}
        self.stored: list[tuple[Target, asyncio.Future[None]]] = []

    async def settle(self) -> Mapping[Target, Exception | None]:
        """The outcomes, once all is stored."""
        for target, future in self.stored:
            try:
                await future
            except Exception as error:
                self.outcomes[target] = without_trace(error)
        for target, batches in self.made.items():
            if self.outcomes[target] is None:
                self._counts.note_acknowledged(batches)
        return self.outcomes


async def acknowledge(
    topics: Iterable[AcknowledgedTopic],
    context: RequestContext[SharesParts],
    session_key: SessionKey,
    *,
    is_renewal: bool,
    may_read: MayRead,
) -> Acknowledging:
    """Make the acknowledgements of a request; partitions without any have no outcome."""
    making = Acknowledging(context.broker.leader.counts)
    outcomes, stored = making.outcomes, making.stored
    turn = Turn(_OFFSETS_PER_TURN_MAX)
    for topic in topics:
        topic_id = topic.topic_id or NO_TOPIC
        for asked in topic.partitions:
            if not asked.acknowledgement_batches:
                continue
            target = (topic_id, asked.partition_index)
            outcomes[target] = None
            if turn.is_over(1 + sum(len(batch.acknowledge_types) for batch in asked.acknowledgement_batches)):
                await turn.next()
            try:
                batches = _check_batches(asked.acknowledgement_batches, context, is_renewal=is_renewal)
                if not may_read(topic_id):
                    raise TopicAuthorizationFailed("Topic authorization failed.")
                leader = context.broker.leader
                share_partition = leader.in_use(session_key.group_id, *target)
                future = share_partition.acknowledge(session_key.member_id, batches)
                making.made[target] = batches
                if future is not None:
                    stored.append((target, future))
            except RequestError as error:
                outcomes[target] = without_trace(error)
    return making


def _check_batches(
    batches: Iterable[AskedBatch], context: RequestContext[SharesParts], *, is_renewal: bool
) -> list[AcknowledgedBatch]:
    """Raises InvalidRequest for batches that no client should send."""
    type_max = (
        AcknowledgeType.RENEW if context.header.api_version >= _FIRST_WITH_RENEWAL else AcknowledgeType.REJECT
    )
    checked: list[AcknowledgedBatch] = []
    last = -1
    for batch in batches:
        types, first = batch.acknowledge_types, batch.first_offset
        if first > batch.last_offset or first < last:
            raise InvalidRequest("Batches of acknowledgements must be sorted by their offsets.")
        if not types or (len(types) > 1 and len(types) != batch.last_offset - first + 1):
            raise InvalidRequest("A batch must have one acknowledge type, or one for each of its offsets.")
        if min(types) < 0 or max(types) > type_max:
            raise InvalidRequest(f"Acknowledge types are 0 to {type_max}.")
        if not is_renewal and AcknowledgeType.RENEW in types:
            raise InvalidRequest("A request that renews locks must say so.")
        last = batch.last_offset
        checked.append(AcknowledgedBatch(first, last, types))
    return checked
