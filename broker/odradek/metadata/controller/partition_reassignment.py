"""The active controller's work on partitions that move to other brokers, on request (KIP-455, KIP-860).

`reassignment_steps` holds the rules. A request begins here. The reassignment ends in `leadership`: with the in-sync set
that has all new replicas, or with the return of the one broker that can lead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import LeaderNotAvailable, RequestError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turns import Turn
from odradek.metadata.controller import eligible_replicas, reassignment_steps
from odradek.metadata.controller.decisions import decision
from odradek.metadata.controller.leadership import Leadership
from odradek.metadata.controller.requests import NewPartitionReassignment, Outcome, check_change_count
from odradek.metadata.image.cordons import placeable
from odradek.metadata.image.image import ImageHolder, PartitionImage

logger = logging.getLogger(__name__)


class PartitionReassignment:
    """Keeps nothing of its own: what is under way is in the image."""

    def __init__(self, leadership: Leadership, images: ImageHolder) -> None:
        self._leadership = leadership
        self.decisions = leadership.decisions
        self._images = images

    @decision
    async def reassign(
        self, wanted: Sequence[NewPartitionReassignment], *, may_change_factor: bool
    ) -> list[Outcome]:
        """Begin, replace or take back reassignments; one outcome each, in order, None for success.

        Raises StoreError and NotController.
        """
        outcomes: list[Outcome] = []
        changed: dict[TopicPartition, PartitionImage] = {}
        turn = Turn()
        for one in wanted:
            if turn.is_over():
                await turn.next()
            where = one.topic_partition
            try:
                before = changed.get(where) or self._leadership.states.find(where)
                after = self._change_partition(one, before, may_change_factor=may_change_factor)
            except RequestError as error:
                outcomes.append(without_trace(error))
                continue
            outcomes.append(None)
            if after is not None:
                changed[where] = after
        check_change_count(len(changed))
        await self._leadership.states.write(changed.items())
        if changed:
            ended = sum(not reassignment_steps.is_under_way(after) for after in changed.values())
            logger.info(
                "%d reassignments asked for: %d begin, %d are at their end, %d refused",
                len(wanted),
                len(changed) - ended,
                ended,
                sum(outcome is not None for outcome in outcomes),
            )
        return outcomes

    def _change_partition(
        self, wanted: NewPartitionReassignment, partition: PartitionImage, *, may_change_factor: bool
    ) -> PartitionImage | None:
        where = wanted.topic_partition
        if partition.partition_epoch < 0:
            raise LeaderNotAvailable(f"{where} was never led yet; try again when its brokers are up.")
        live = self._leadership.eligible()
        min_in_sync = eligible_replicas.min_in_sync(self._images.current, where.topic, partition.leader)
        if wanted.replicas is None:
            unclean = self._leadership.allows_unclean_election(where.topic)
            return reassignment_steps.cancel_move(
                where, partition, live=live, min_in_sync=min_in_sync, unclean=unclean
            )
        members = self._images.current.brokers
        receivers = placeable(self._images.current)
        reassignment_steps.check_target(
            where,
            partition,
            wanted.replicas,
            placeable=receivers.racks,
            known={*members, *self._images.current.registrations},
            machines=receivers.machines,
            may_change_factor=may_change_factor,
        )
        return reassignment_steps.begin_move(partition, wanted.replicas, live=live, min_in_sync=min_in_sync)

    async def under_way(
        self, wanted: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionImage]:
        """The partitions among `wanted` (None: among all) that are being reassigned; those that are not there are
        passed over.
        """
        found: dict[TopicPartition, PartitionImage] = {}
        topics = self._images.current.topics
        turn = Turn()
        for where in (place for place, _ in self._leadership.states) if wanted is None else wanted:
            if turn.is_over():
                await turn.next()
            topic = topics.get(where.topic)
            if topic is not None and 0 <= where.partition < len(topic.partitions):
                partition = topic.partitions[where.partition]
                if reassignment_steps.is_under_way(partition):
                    found[where] = partition
        return found
