"""Where share groups stand, as administrators see and change it (KIP-932, KIP-1226)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from uuid import UUID

from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.share.states import GroupStates
from odradek.broker.share_states.states import NOT_STARTED, StartOffsets, StateErrors, StateSummary
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple

UNKNOWN_LAG = -1

# The end offsets of partitions, or the errors that they met.
AskEndOffsets = Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int | OdradekError]]]


class SharePosition(NamedTuple):
    """Where a share-partition begins, and the count of offsets whose delivery is not complete; -1 where not known."""

    start_offset: int
    leader_epoch: int
    lag: int


class ShareOffsets:
    """The positions of the share groups that this broker coordinates."""

    def __init__(self, groups: GroupCoordinator, ask_end_offsets: AskEndOffsets) -> None:
        self._groups = groups
        self._ask_end_offsets = ask_end_offsets

    def list_partitions(self, group_id: str) -> Mapping[UUID, frozenset[int]]:
        """The partitions that the group keeps states of. Raises GroupIdNotFound, what routing raises."""
        states = self._find(group_id).list_initialized(group_id)
        return {topic_id: topic.partitions for topic_id, topic in states.items()}

    async def describe(
        self, group_id: str, partitions: Mapping[UUID, Collection[int]]
    ) -> Mapping[tuple[UUID, int], SharePosition | OdradekError]:
        """The positions of partitions. Raises GroupIdNotFound, what routing raises."""
        self._find(group_id).list_initialized(group_id)
        context = self._groups.context
        found = await context.share_states.summarize(group_id, partitions)
        by_id = context.images.current.topics_by_id
        started = {
            (topic_id, number): TopicPartition(by_id[topic_id].name, number)
            for (topic_id, number), one in found.items()
            if isinstance(one, StateSummary) and one.start_offset != NOT_STARTED and topic_id in by_id
        }
        ends = await self._ask_end_offsets(list(started.values())) if started else {}
        return {
            place: one
            if isinstance(one, OdradekError)
            else _position(one, ends.get(started.get(place, _NOWHERE)))
            for place, one in found.items()
        }

    async def reset(self, group_id: str, starts: StartOffsets) -> StateErrors:
        """A group that is not there is made. Raises NonEmptyGroup, and GroupIdNotFound for one of another kind.

        Raises what routing and writes raise.
        """
        self._groups.context.check_share_protocol()
        return await self._groups.runtime.shard(group_id).machine.shares.states.reset(group_id, starts)

    async def delete(self, group_id: str, topic_ids: Collection[UUID]) -> Mapping[UUID, OdradekError]:
        """Raises as `reset`; gives the errors of single topics."""
        return await self._find(group_id).delete_topics(group_id, topic_ids)

    def _find(self, group_id: str) -> GroupStates:
        self._groups.context.check_share_protocol()
        machine = self._groups.runtime.shard(group_id).machine
        if machine.groups.share(group_id) is None:
            raise machine.groups.missing(group_id, "share")
        return machine.shares.states


_NOWHERE = TopicPartition("", -1)


def _position(summary: StateSummary, end_offset: int | OdradekError | None) -> SharePosition | OdradekError:
    if isinstance(end_offset, OdradekError):
        return end_offset
    if end_offset is None or summary.delivery_complete_count < 0:
        return SharePosition(summary.start_offset, summary.leader_epoch, UNKNOWN_LAG)
    lag = end_offset - summary.start_offset - summary.delivery_complete_count
    return SharePosition(summary.start_offset, summary.leader_epoch, max(lag, 0))
