"""The active controller's work on partitions while brokers come and go: elections, written to the registry.

The rules are `elections`; here is what they are applied to, and that results are written, in writes of bounded size,
before anybody hears of them. Like all decisions of the controller these are made one after the other.

What it leaves out: topics and settings (`controller`), who is the controller, and when brokers are looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from odradek.cluster import nodes, paths
from odradek.cluster.change_log import NodeChange
from odradek.cluster.configs import topic_value
from odradek.cluster.dynamic_settings import DynamicSettings
from odradek.cluster.image import NO_LEADER, BrokerImage, ImageHolder, PartitionImage, ResourceKind
from odradek.cluster.store import Create, Put, Store, children_or_none, get_or_none
from odradek.controller import elections, reassignments
from odradek.controller.commits import Commits
from odradek.controller.decisions import Decisions
from odradek.controller.partition_states import PartitionStates
from odradek.foundation.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    PreferredLeaderNotAvailable,
    RequestError,
    StaleBrokerEpoch,
)
from odradek.foundation.ids import TopicPartition

logger = logging.getLogger(__name__)


class NewInSyncSet(NamedTuple):
    """One partition of a leader's AlterPartition: the set it proposes, on the ground of these epochs."""

    topic_partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class Leadership:
    """Leaders and in-sync sets of all partitions, for one term of one controller."""

    def __init__(
        self,
        store: Store,
        commits: Commits,
        images: ImageHolder,
        settings: DynamicSettings,
        decisions: Decisions,
    ) -> None:
        self._store = store
        self._commits = commits
        self._images = images
        self._settings = settings
        self.decisions = decisions
        self.states = PartitionStates(commits, images)
        self._stopping: dict[int, int] = {}
        self._seen: Mapping[int, int] | None = None
        self._is_seen_written = False

    # --- members -------------------------------------------------------------------------------------------------

    async def look_at_members(self) -> None:
        """Read who is registered, and elect where that calls for it; also what a former controller left undone."""
        await self.decisions.make(self._look_at_members)

    async def _look_at_members(self) -> None:
        """A broker is shown as a member only when what follows from its coming is written: a broker that sees itself
        in the image knows that it leads no more what it led in its former life.
        """
        seen = await self._seen_before()
        members = await self._members()
        registered = {
            broker_id: nodes.read_broker(change.path, change.data or b"")
            for broker_id, change in members.items()
        }
        came = [broker for broker in registered.values() if seen.get(broker.id) != broker.epoch]
        gone = [broker_id for broker_id in seen if _epoch(registered.get(broker_id)) != seen[broker_id]]
        self._tell_of(came, gone)
        known = self._images.current.brokers
        self._commits.observe([NodeChange(paths.broker(number), None) for number in gone if number in known])
        if gone:
            stayed = self._images.current.brokers.keys() - set(gone)
            await self.states.apply_to_all(
                lambda topic, partition: self._without(topic, partition, gone, stayed)
            )
        doubtful = [broker.id for broker in came if not broker.stopped_cleanly]
        if doubtful:
            await self.states.apply_to_all(
                lambda topic, partition: self._doubted(topic, partition, doubtful, registered),
                lost=doubtful,
                # One that comes may lead, and what it goes by counts.
                image=replace(self._images.current, brokers=registered),
            )
        self._commits.observe([members[broker.id] for broker in came])
        await self.states.apply_to_all(self._led)
        if came or gone:
            await self._note_seen(registered)

    async def _members(self) -> dict[int, NodeChange]:
        members: dict[int, NodeChange] = {}
        for name in await children_or_none(self._store, paths.BROKER_IDS):
            path = paths.broker(int(name))
            node = await get_or_none(self._store, path)
            # Ephemeral: it may go between the two reads.
            if node is not None:
                members[int(name)] = NodeChange(path, node.data, node.version)
        return members

    async def _seen_before(self) -> Mapping[int, int]:
        """The brokers' epochs that elections have followed from, by this controller or the one before: one that came
        back after an unclean stop while nobody decided must not pass for one that never left.
        """
        if self._seen is None:
            node = await get_or_none(self._store, paths.SEEN_BROKERS)
            self._is_seen_written = node is not None
            self._seen = {} if node is None else nodes.read_seen_brokers(paths.SEEN_BROKERS, node.data)
        return self._seen

    async def _note_seen(self, registered: Mapping[int, BrokerImage]) -> None:
        self._seen = {broker.id: broker.epoch for broker in registered.values()}
        data = nodes.write_seen_brokers(self._seen)
        path = paths.SEEN_BROKERS
        await self._commits.commit([Put(path, data) if self._is_seen_written else Create(path, data)])
        self._is_seen_written = True

    def _tell_of(self, came: Iterable[BrokerImage], gone: Iterable[int]) -> None:
        for broker_id in gone:
            self._stopping.pop(broker_id, None)
            logger.info("broker %d left the cluster", broker_id)
        for broker in came:
            how = (
                "after a clean stop"
                if broker.stopped_cleanly
                else "after an unclean stop, or for the first time"
            )
            logger.info("broker %d joined the cluster %s, epoch %d", broker.id, how, broker.epoch)

    def _without(
        self, topic: str, partition: PartitionImage, gone: Sequence[int], stayed: Collection[int]
    ) -> PartitionImage | None:
        if partition.partition_epoch < 0:
            return None
        return elections.without_brokers(partition, gone, live=stayed, unclean=self.may_lose(topic))

    def _doubted(
        self, topic: str, partition: PartitionImage, doubtful: Iterable[int], live: Collection[int]
    ) -> PartitionImage | None:
        if partition.partition_epoch < 0:
            return None
        after, unclean = partition, self.may_lose(topic)
        for broker_id in doubtful:
            if broker_id in partition.replicas:
                after = elections.after_unclean_stop(after, broker_id, live=live, unclean=unclean) or after
        return after if after != partition else None

    def _led(self, topic: str, partition: PartitionImage) -> PartitionImage | None:
        brokers = self._images.current.brokers
        if partition.partition_epoch < 0:
            return _first_state(partition, live=brokers)
        after = elections.elected(partition, live=brokers, unclean=self.may_lose(topic))
        return reassignments.completed(after or partition, live=self.eligible()) or after

    def may_lose(self, topic: str) -> bool:
        """unclean.leader.election.enable."""
        texts = self._images.current.config(ResourceKind.TOPIC, topic)
        return bool(topic_value("unclean.leader.election.enable", texts, settings=self._settings.current))

    async def shut_down(self, broker_id: int, *, broker_epoch: int) -> list[TopicPartition]:
        """Move everything away from a broker that wants to stop; what it still leads, for want of another in sync.

        It comes into no in-sync set any more until it registers anew. Raises StaleBrokerEpoch.
        """
        return await self.decisions.make(lambda: self._shut_down(broker_id, broker_epoch))

    async def _shut_down(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        self._check_epoch(broker_id, broker_epoch)
        self._stopping[broker_id] = broker_epoch
        live = self.eligible()
        await self.states.apply_to_all(
            lambda _, partition: elections.before_shutdown(partition, broker_id, live=live)
        )
        return [where for where, partition in self.states if partition.leader == broker_id]

    def _check_epoch(self, broker_id: int, broker_epoch: int) -> None:
        known = _epoch(self._images.current.brokers.get(broker_id))
        if known != broker_epoch:
            there = "is not registered" if known is None else f"is registered with epoch {known}"
            raise StaleBrokerEpoch(
                f"broker {broker_id} {there}; the request comes from epoch {broker_epoch}."
            )

    def eligible(self) -> Collection[int]:
        """The brokers that are live and not shutting down."""
        return self._images.current.brokers.keys() - self._stopping.keys()

    # --- in-sync sets --------------------------------------------------------------------------------------------

    async def alter_in_sync_sets(
        self, broker_id: int, *, broker_epoch: int, proposals: Sequence[NewInSyncSet]
    ) -> list[PartitionImage | RequestError]:
        """What leaders propose (KIP-497): for each proposal, in order, the partition as it then is, or why not.

        Raises StaleBrokerEpoch.
        """
        return await self.decisions.make(lambda: self._alter_in_sync_sets(broker_id, broker_epoch, proposals))

    async def _alter_in_sync_sets(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[NewInSyncSet]
    ) -> list[PartitionImage | RequestError]:
        self._check_epoch(broker_id, broker_epoch)
        eligible = self.eligible()
        refusals: dict[int, RequestError] = {}
        altered: dict[TopicPartition, PartitionImage] = {}
        for index, proposal in enumerate(proposals):
            where = proposal.topic_partition
            try:
                after = elections.altered(
                    where,
                    altered.get(where) or self.states.find(where),
                    by=broker_id,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    isr=proposal.isr,
                    eligible=eligible,
                )
            except RequestError as error:
                refusals[index] = error
                continue
            if after is not None:
                altered[where] = reassignments.completed(after, live=eligible) or after
        await self.states.write(altered.items())
        return [
            refusals.get(index) or self.states.find(proposal.topic_partition)
            for index, proposal in enumerate(proposals)
        ]

    # --- elections on request ------------------------------------------------------------------------------------

    async def elect(
        self, wanted: Iterable[TopicPartition] | None, *, unclean: bool
    ) -> dict[TopicPartition, RequestError | None]:
        """ElectLeaders (KIP-460): the preferred leaders, or with `unclean` any live replica of leaderless partitions.

        None for all partitions, of which those that need no election are left out. Raises nothing for a partition: its
        outcome says it.
        """
        return await self.decisions.make(lambda: self._elect(wanted, unclean))

    async def _elect(
        self, wanted: Iterable[TopicPartition] | None, unclean: bool
    ) -> dict[TopicPartition, RequestError | None]:
        everything = wanted is None
        outcomes: dict[TopicPartition, RequestError | None] = {}
        elected: dict[TopicPartition, PartitionImage] = {}
        for where in [place for place, _ in self.states] if wanted is None else wanted:
            try:
                elected[where] = self._elected(where, self.states.find(where), unclean=unclean)
                outcomes[where] = None
            except ElectionNotNeeded as error:
                if not everything:
                    outcomes[where] = error
            except RequestError as error:
                outcomes[where] = error
        await self.states.write(elected.items())
        return outcomes

    def _elected(self, where: TopicPartition, partition: PartitionImage, *, unclean: bool) -> PartitionImage:
        brokers = self._images.current.brokers
        if unclean:
            if partition.leader in brokers:
                raise ElectionNotNeeded(f"{where} has the leader {partition.leader}.")
            after = elections.elected(partition, live=brokers, unclean=True)
            if after is None or after.leader == NO_LEADER:
                raise EligibleLeadersNotAvailable(
                    f"none of the replicas {list(partition.replicas)} of {where} is live."
                )
            return after
        if partition.leader == partition.replicas[0]:
            raise ElectionNotNeeded(f"{where} is led by its preferred leader {partition.leader}.")
        after = elections.preferred(partition, live=self.eligible())
        if after is None:
            raise PreferredLeaderNotAvailable(
                f"the preferred leader {partition.replicas[0]} of {where} is not live and in sync."
            )
        return after

    async def balance(self, *, imbalance_percent_max: int) -> int:
        """Give brokers back what they should lead, where more than this part of it is led by others; how many moved."""
        return await self.decisions.make(lambda: self._balance(imbalance_percent_max))

    async def _balance(self, imbalance_percent_max: int) -> int:
        eligible = self.eligible()
        should: dict[int, int] = {}
        movable: dict[int, list[tuple[TopicPartition, PartitionImage]]] = {}
        for where, partition in self.states:
            first = partition.replicas[0]
            should[first] = should.get(first, 0) + 1
            after = elections.preferred(partition, live=eligible)
            if after is not None:
                movable.setdefault(first, []).append((where, after))
        moved = 0
        for broker_id, partitions in movable.items():
            if len(partitions) * 100 > imbalance_percent_max * should[broker_id]:
                await self.states.write(partitions)
                moved += len(partitions)
        return moved


def _epoch(broker: BrokerImage | None) -> int | None:
    return None if broker is None else broker.epoch


def _first_state(partition: PartitionImage, *, live: Collection[int]) -> PartitionImage | None:
    """The state of a partition whose topic was made by a controller that died before it came to this."""
    alive = tuple(broker for broker in partition.replicas if broker in live)
    if not alive:
        return None
    return partition._replace(leader=alive[0], leader_epoch=0, isr=alive)
