"""The active controller's work on partitions while brokers join and leave: elections, written to the registry.

`leader_election` holds the rules. This module applies them to partitions and writes the results, in writes of bounded
size, before any broker learns of them. Like all decisions of the controller, these run one after the other.

What it leaves out: topics and settings (`controller`), which controller is active, and when brokers are read again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    BrokerIdNotRegistered,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    RequestError,
    StaleBrokerEpoch,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.turns import Turn
from odradek.foundation.words import count
from odradek.metadata.controller import leader_election, reassignment_steps
from odradek.metadata.controller.decisions import Decisions, decision
from odradek.metadata.controller.partition_states import PartitionStates
from odradek.metadata.controller.registry_writer import RegistryWriter
from odradek.metadata.controller.requests import check_change_count
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.configs import topic_value
from odradek.metadata.image.dynamic_settings import DynamicSettings
from odradek.metadata.image.image import NO_LEADER, BrokerImage, ImageHolder, PartitionImage, ResourceKind
from odradek.metadata.registry.store import (
    Create,
    Delete,
    Operation,
    Put,
    Store,
    children_or_none,
    get_or_none,
)

logger = logging.getLogger(__name__)


class AlterPartitionData(NamedTuple):
    """One partition of an AlterPartition request: the in-sync set that its leader proposes, for these epochs."""

    topic_partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class Leadership:
    """Leaders and in-sync sets of all partitions, for one term of one controller."""

    def __init__(
        self,
        store: Store,
        writer: RegistryWriter,
        images: ImageHolder,
        settings: DynamicSettings,
        decisions: Decisions,
    ) -> None:
        self._store = store
        self._writer = writer
        self._images = images
        self._settings = settings
        self.decisions = decisions
        self.states = PartitionStates(writer, images)
        self._stopping: dict[int, int] = {}
        self._seen: Mapping[int, int] | None = None
        self._is_seen_written = False

    # --- members -------------------------------------------------------------------------------------------------

    @decision
    async def refresh_brokers(self) -> None:
        """Read the registrations, and elect leaders where they changed; also what a former controller left undone.

        A broker is in the image as a member only when everything that follows from its return is written. So a broker
        that sees itself in the image knows that it no longer leads what it led before its restart.
        """
        seen = await self._read_seen_brokers()
        members = await self._members()
        registered = {
            broker_id: nodes.read_broker(change.path, change.data or b"")
            for broker_id, change in members.items()
        }
        joined = [broker for broker in registered.values() if seen.get(broker.id) != broker.epoch]
        left = [broker_id for broker_id in seen if _epoch(registered.get(broker_id)) != seen[broker_id]]
        self._log_changes(joined, left)
        known = self._images.current.brokers
        self._writer.observe([NodeChange(paths.broker(number), None) for number in left if number in known])
        if left:
            remaining = self._images.current.brokers.keys() - set(left)
            await self.states.apply_to_all(
                lambda topic, partition: self._without_brokers(topic, partition, left, remaining)
            )
        stopped_uncleanly = [broker.id for broker in joined if not broker.stopped_cleanly]
        if stopped_uncleanly:
            await self.states.apply_to_all(
                lambda topic, partition: self._after_unclean_stops(
                    topic, partition, stopped_uncleanly, registered
                ),
                lost=stopped_uncleanly,
                # A broker that joins may lead, and its settings count.
                image=replace(self._images.current, brokers=registered),
            )
        self._writer.observe([members[broker.id] for broker in joined])
        await self.states.apply_to_all(self._with_leader)
        known = self._images.current.registrations
        described = [broker for broker in registered.values() if _epoch(known.get(broker.id)) != broker.epoch]
        if joined or left or described:
            await self._write_seen_brokers(registered, [members[broker.id] for broker in described])

    async def _members(self) -> dict[int, NodeChange]:
        members: dict[int, NodeChange] = {}
        for name in await children_or_none(self._store, paths.BROKER_IDS):
            path = paths.broker(int(name))
            node = await get_or_none(self._store, path)
            # Ephemeral: it may go between the two reads.
            if node is not None:
                members[int(name)] = NodeChange(path, node.data, node.version)
        return members

    async def _read_seen_brokers(self) -> Mapping[int, int]:
        """The broker epochs that elections have considered, by this controller or the one before. A broker that came
        back after an unclean stop, while there was no controller, must not pass for one that never left.
        """
        if self._seen is None:
            node = await get_or_none(self._store, paths.SEEN_BROKERS)
            self._is_seen_written = node is not None
            self._seen = {} if node is None else nodes.read_seen_brokers(paths.SEEN_BROKERS, node.data)
        return self._seen

    async def _write_seen_brokers(
        self, registered: Mapping[int, BrokerImage], described: Iterable[NodeChange]
    ) -> None:
        """Write which registrations elections have followed, and those in `described` for the time without them."""
        self._seen = {broker.id: broker.epoch for broker in registered.values()}
        operations: list[Operation] = [
            _write_node(
                paths.SEEN_BROKERS, nodes.write_seen_brokers(self._seen), exists=self._is_seen_written
            )
        ]
        known = self._images.current.registrations
        for change in described:
            broker_id = int(change.path.rpartition("/")[2])
            operations.append(
                _write_node(paths.registration(broker_id), change.data or b"", exists=broker_id in known)
            )
        await self._writer.write(operations)
        self._is_seen_written = True

    @decision
    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that was taken out for good: no new replica is placed on it any more.

        Raises BrokerIdNotRegistered, and InvalidRequest while it is alive or has replicas. Kafka forgets such a broker
        too, whose replicas then have no place that anyone knows.
        """
        image = self._images.current
        if broker_id in image.brokers:
            raise InvalidRequest(f"broker {broker_id} is alive; stop it first, and then remove it")
        if broker_id not in image.registrations:
            known = sorted({*image.brokers, *image.registrations})
            raise BrokerIdNotRegistered(
                f"Broker ID {broker_id} is not currently registered; those that are: {known}"
            )
        placed = 0
        turn = Turn()
        for _, partition in self.states:
            if turn.is_over():
                await turn.next()
            placed += broker_id in partition.replicas
        if placed:
            raise InvalidRequest(
                f"broker {broker_id} still has {count(placed, 'replica')}; move them to others first: "
                f"`odradek brokers drain {broker_id} --wait`"
            )
        await self._writer.write([Delete(paths.registration(broker_id))])

    def _log_changes(self, came: Iterable[BrokerImage], gone: Iterable[int]) -> None:
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

    def _without_brokers(
        self, topic: str, partition: PartitionImage, gone: Sequence[int], stayed: Collection[int]
    ) -> PartitionImage | None:
        if partition.partition_epoch < 0:
            return None
        return leader_election.without_brokers(
            partition, gone, live=stayed, unclean=self.allows_unclean_election(topic)
        )

    def _after_unclean_stops(
        self, topic: str, partition: PartitionImage, stopped: Iterable[int], live: Collection[int]
    ) -> PartitionImage | None:
        if partition.partition_epoch < 0:
            return None
        after, unclean = partition, self.allows_unclean_election(topic)
        for broker_id in stopped:
            if broker_id in partition.replicas:
                after = (
                    leader_election.after_unclean_stop(after, broker_id, live=live, unclean=unclean) or after
                )
        return after if after != partition else None

    def _with_leader(self, topic: str, partition: PartitionImage) -> PartitionImage | None:
        brokers = self._images.current.brokers
        if partition.partition_epoch < 0:
            return _first_state(partition, live=brokers)
        after = leader_election.elect_leader(
            partition, live=brokers, unclean=self.allows_unclean_election(topic)
        )
        return reassignment_steps.complete_move(after or partition, live=self.eligible()) or after

    def allows_unclean_election(self, topic: str) -> bool:
        """unclean.leader.election.enable."""
        texts = self._images.current.config(ResourceKind.TOPIC, topic)
        return bool(topic_value("unclean.leader.election.enable", texts, settings=self._settings.current))

    @decision
    async def shut_down_broker(self, broker_id: int, *, broker_epoch: int) -> list[TopicPartition]:
        """Move leaderships away from a broker that wants to stop; returns what it still leads, where no other is in
        sync.

        It joins no in-sync set until it registers again. Raises StaleBrokerEpoch.
        """
        self._check_epoch(broker_id, broker_epoch)
        self._stopping[broker_id] = broker_epoch
        live = self.eligible()
        await self.states.apply_to_all(
            lambda _, partition: leader_election.before_shutdown(partition, broker_id, live=live)
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

    @decision
    async def alter_in_sync_sets(
        self, broker_id: int, *, broker_epoch: int, proposals: Sequence[AlterPartitionData]
    ) -> list[PartitionImage | RequestError]:
        """Decide on the proposals of leaders (KIP-497): for each, in their order, the resulting partition or a refusal.

        Raises StaleBrokerEpoch.
        """
        self._check_epoch(broker_id, broker_epoch)
        eligible = self.eligible()
        refusals: dict[int, RequestError] = {}
        altered: dict[TopicPartition, PartitionImage] = {}
        for index, proposal in enumerate(proposals):
            where = proposal.topic_partition
            try:
                after = leader_election.alter_partition(
                    where,
                    altered.get(where) or self.states.find(where),
                    by=broker_id,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    isr=proposal.isr,
                    eligible=eligible,
                )
            except RequestError as error:
                refusals[index] = without_trace(error)
                continue
            if after is not None:
                altered[where] = reassignment_steps.complete_move(after, live=eligible) or after
        await self.states.write(altered.items())
        return [
            refusals.get(index) or self.states.find(proposal.topic_partition)
            for index, proposal in enumerate(proposals)
        ]

    # --- elections on request ------------------------------------------------------------------------------------

    @decision
    async def elect(
        self, wanted: Iterable[TopicPartition] | None, *, unclean: bool
    ) -> dict[TopicPartition, RequestError | None]:
        """ElectLeaders (KIP-460): the preferred leaders, or with `unclean` any live replica of leaderless partitions.

        None for all partitions, of which those that need no election are left out. Raises nothing for a partition: its
        outcome says it.
        """
        everything = wanted is None
        outcomes: dict[TopicPartition, RequestError | None] = {}
        elected: dict[TopicPartition, PartitionImage] = {}
        turn = Turn()
        # Only a decision changes which partitions there are.
        for where in (place for place, _ in self.states) if wanted is None else wanted:
            if turn.is_over():
                await turn.next()
            try:
                elected[where] = self._elect_leader(where, self.states.find(where), unclean=unclean)
                outcomes[where] = None
            except ElectionNotNeeded as error:
                if not everything:
                    outcomes[where] = without_trace(error)
            except RequestError as error:
                outcomes[where] = without_trace(error)
        check_change_count(len(elected))
        await self.states.write(elected.items())
        return outcomes

    def _elect_leader(
        self, where: TopicPartition, partition: PartitionImage, *, unclean: bool
    ) -> PartitionImage:
        brokers = self._images.current.brokers
        if unclean:
            if partition.leader in brokers:
                raise ElectionNotNeeded(f"{where} has the leader {partition.leader}.")
            after = leader_election.elect_leader(partition, live=brokers, unclean=True)
            if after is None or after.leader == NO_LEADER:
                raise EligibleLeadersNotAvailable(
                    f"none of the replicas {list(partition.replicas)} of {where} is live."
                )
            return after
        if partition.leader == partition.replicas[0]:
            raise ElectionNotNeeded(f"{where} is led by its preferred leader {partition.leader}.")
        after = leader_election.elect_preferred(partition, live=self.eligible())
        if after is None:
            raise PreferredLeaderNotAvailable(
                f"the preferred leader {partition.replicas[0]} of {where} is not live and in sync."
            )
        return after

    @decision
    async def balance(self) -> int:
        """Return leaderships to preferred leaders; how many moved."""
        eligible = self.eligible()
        moved = 0

        def elect_preferred_replica(_: str, partition: PartitionImage) -> PartitionImage | None:
            nonlocal moved
            after = leader_election.elect_preferred(partition, live=eligible)
            moved += after is not None
            return after

        await self.states.apply_to_all(elect_preferred_replica)
        return moved


def _write_node(path: str, data: bytes, *, exists: bool) -> Operation:
    return Put(path, data) if exists else Create(path, data)


def _epoch(broker: BrokerImage | None) -> int | None:
    return None if broker is None else broker.epoch


def _first_state(partition: PartitionImage, *, live: Collection[int]) -> PartitionImage | None:
    """The state of a partition whose topic was made by a controller that died before it came to this."""
    alive = tuple(broker for broker in partition.replicas if broker in live)
    if not alive:
        return None
    return partition._replace(leader=alive[0], leader_epoch=0, isr=alive)
