"""Whole brokers: their replicas and disks, the drain of one before its removal, and the filling of a new one. A drain
cordons the broker (KIP-1066: it is given no new replicas) and moves all its replicas to others. It continues without
the client that began it. `drain_progress` reports its state. `undrain` lifts the cordon and cancels the moves that have
not ended; replicas that have moved stay where they are until the next `plan_spread`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.client.admin import plans
from odradek.client.admin.balance_plans import plan_balance
from odradek.client.admin.balance_values import BalancePlan, BalanceTolerance, ClusterLoad
from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.disks import directories
from odradek.client.admin.load_measuring import measure_load
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.plans import Machines, Plan, Racks
from odradek.client.admin.reassignments import SIDES, OngoingReassignment, ReassignmentAdmin
from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.errors import raise_for
from odradek.client.results import AlterOperation, ConfigChange, LogDirectoryDescription, ResourceType
from odradek.foundation.errors import BrokerNotAvailable, NoReassignmentInProgress, OdradekError, RequestError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

UNREGISTER_VERSIONS: Final = (0, 0)
CORDON_KEY: Final = "cordoned.log.dirs"
EVERY_DIRECTORY: Final = "*"
MACHINE_KEY: Final = "broker.machine"
_PLACEMENT_KEYS: Final = (CORDON_KEY, MACHINE_KEY)


class MovesRefused(RequestError):
    """The controller refused some moves of a plan; the others continue."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A live broker with its numbers of replicas, leaders, and preferred leaders."""

    id: int
    host: str
    port: int
    rack: str | None
    is_cordoned: bool
    replicas: int
    leaders: int
    preferred_leaders: int
    log_directories: tuple[LogDirectoryDescription, ...] = ()
    """Its log directories, without their replicas."""
    error: str | None = None
    """Why it does not report its disks."""
    machine: str | None = None
    """The machine that it shares with other brokers, if it has a name (`broker.machine`)."""


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The state of a drain: what the broker still has. `bytes_left` are those that other brokers have yet to fetch."""

    broker_id: int
    is_cordoned: bool
    replicas: int
    leaders: int
    moving: int
    bytes_left: int
    is_live: bool = True

    @property
    def is_done(self) -> bool:
        """Whether the broker can be removed without a loss, and is given no new replicas."""
        return self.is_cordoned and self.replicas == 0

    @property
    def is_stuck(self) -> bool:
        """Whether replicas are left without a move: of topics created before the cordon, or of a cancelled move."""
        return self.replicas > self.moving


@dataclass(frozen=True, slots=True)
class _Placement:
    """Where replicas may go: the racks of live brokers without a cordon, and the machines of all live ones."""

    racks: dict[int, str | None]
    cordoned: set[int]
    machines: dict[int, str]


@checking_arguments()
class BrokerAdmin:
    """The admin calls for brokers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._configs = ConfigAdmin(client)
        self._logs = LogAdmin(client)
        self.reassignments = ReassignmentAdmin(client)

    async def list(self) -> list[BrokerLoad]:
        """The live brokers, by id."""
        known = await self._read_placement()
        cluster = await self._client.with_retries(lambda: self._client.refresh(None))
        partitions = [one for topic in cluster.topics.values() for one in topic.partitions]
        disks = await directories(self._client, cluster.brokers, partitions=())
        return [
            BrokerLoad(
                id=broker.id,
                host=broker.address.host,
                port=broker.address.port,
                rack=broker.rack,
                machine=known.machines.get(broker.id),
                is_cordoned=broker.id in known.cordoned,
                replicas=sum(broker.id in one.replicas for one in partitions),
                leaders=sum(broker.id == one.leader for one in partitions),
                preferred_leaders=sum(broker.id == next(iter(one.replicas), None) for one in partitions),
                log_directories=() if isinstance(told, OdradekError) else tuple(told),
                error=str(told) if isinstance(told, OdradekError) else None,
            )
            for broker, told in (
                (cluster.brokers[broker_id], disks[broker_id]) for broker_id in sorted(disks)
            )
        ]

    # --- placement -----------------------------------------------------------------------------------------------

    async def cordon(self, broker_id: int) -> None:
        """Give the broker no new replicas. Raises InvalidRequest for an unknown broker."""
        await self._alter_cordon(broker_id, ConfigChange(CORDON_KEY, EVERY_DIRECTORY))

    async def uncordon(self, broker_id: int) -> None:
        """Allow new replicas on the broker again."""
        await self._alter_cordon(broker_id, ConfigChange(CORDON_KEY, None, AlterOperation.DELETE))

    async def _alter_cordon(self, broker_id: int, change: ConfigChange) -> None:
        # Not through the broker itself, which may be down.
        await self._configs.alter_all(ResourceType.BROKER, {str(broker_id): [change]})

    async def _read_placement(self) -> _Placement:
        cluster = await self._client.with_retries(lambda: self._client.refresh(()))
        found = _Placement({}, set(), {})
        for broker in cluster.brokers.values():
            entries = await self._configs.describe(ResourceType.BROKER, str(broker.id), keys=_PLACEMENT_KEYS)
            values = {entry.name: entry.value for entry in entries}
            if values.get(CORDON_KEY) == EVERY_DIRECTORY:
                found.cordoned.add(broker.id)
            else:
                found.racks[broker.id] = broker.rack
            # A Kafka has no such setting.
            if machine := values.get(MACHINE_KEY):
                found.machines[broker.id] = machine
        return found

    async def racks(self) -> Racks:
        """The racks of the live brokers that may receive replicas."""
        return (await self._read_placement()).racks

    async def machines(self) -> Machines:
        """The machines of the live brokers that have a name for theirs (`broker.machine`)."""
        return (await self._read_placement()).machines

    # --- drain ---------------------------------------------------------------------------------------------------

    async def plan_drain(self, broker_id: int, *others: int) -> Plan:
        """The moves that a drain of all these brokers needs. They stay on a machine where brokers of it are left.

        Raises InvalidReplicationFactor when too few other brokers are left.
        """
        known = await self._read_placement()
        return plans.plan_drain(
            await self.reassignments.assignment(),
            known.racks,
            leaving={broker_id, *others},
            machines=known.machines,
        )

    async def drain(self, broker_id: int, *others: int, bytes_per_second: int | None = None) -> Plan:
        """Cordon the brokers and begin to move all their replicas. A second call moves the replicas that came since, or
        that the first one left, and gives the new throttle to the moves under way. The plan has both.

        `bytes_per_second` limits what each broker sends and fetches for the drain (`lift_throttles` at the end). Raises
        InvalidReplicationFactor when too few other brokers are left (nothing is changed then), InvalidRequest,
        MovesRefused.
        """
        leaving = {broker_id, *others}
        await self.plan_drain(*leaving)
        for one in sorted(leaving):
            await self.cordon(one)
        # Planned again: topics may have been created before the cordon.
        plan = await self.plan_drain(*leaving)
        under_way = await self.reassignments.under_way()
        plan |= {where: one.target for where, one in under_way.items() if leaving.intersection(one.removing)}
        return await self.execute(plan, bytes_per_second=bytes_per_second)

    async def drain_progress(self, broker_id: int) -> DrainProgress:
        """The progress of a drain. A broker that is down counts as cordoned."""
        is_live = broker_id in (await self._client.with_retries(lambda: self._client.refresh(()))).brokers
        cordoned = (await self._read_placement()).cordoned if is_live else {broker_id}
        moving = {
            where: one
            for where, one in (await self.reassignments.under_way()).items()
            if broker_id in one.removing
        }
        cluster = await self._client.with_retries(lambda: self._client.refresh(None))
        partitions = [one for topic in cluster.topics.values() for one in topic.partitions]
        return DrainProgress(
            broker_id=broker_id,
            is_cordoned=broker_id in cordoned,
            replicas=sum(broker_id in one.replicas for one in partitions),
            leaders=sum(broker_id == one.leader for one in partitions),
            moving=len(moving),
            bytes_left=await self.bytes_left(moving),
            is_live=is_live,
        )

    async def bytes_left(self, moving: Mapping[TopicPartition, OngoingReassignment]) -> int:
        """The bytes that added replicas have yet to fetch, by the sizes of their logs."""
        if not moving:
            return 0
        sizes: dict[TopicPartition, dict[int, int]] = {where: {} for where in moving}
        for directory in await self._logs.describe_log_dirs(moving):
            for where, replica in directory.replicas.items():
                if where in sizes:
                    sizes[where][directory.broker_id] = replica.size_bytes
        return sum(
            max(max(sizes[where].values(), default=0) - sizes[where].get(broker, 0), 0)
            for where, one in moving.items()
            for broker in one.adding
        )

    async def undrain(self, broker_id: int) -> tuple[TopicPartition, ...]:
        """Lift the cordon, and cancel the unfinished moves off the broker. Returns their partitions."""
        await self.uncordon(broker_id)
        under_way = await self.reassignments.under_way()
        wanted = tuple(where for where, one in under_way.items() if broker_id in one.removing)
        if wanted:
            raise_refusals(await self.reassignments.cancel(wanted))
        return wanted

    async def remove(self, broker_id: int) -> None:
        """Have the cluster forget a broker that was taken out for good, so that it places nothing there any more.

        Raises BrokerIdNotRegistered. Raises InvalidRequest while the broker is alive or has replicas.
        """

        async def attempt() -> None:
            response = await (await self._client.controller()).request(
                ApiKey.UNREGISTER_BROKER, versions=UNREGISTER_VERSIONS, broker_id=broker_id
            )
            raise_for(response.error_code, response.error_message)

        await self._client.with_retries(attempt)

    # --- other plans ---------------------------------------------------------------------------------------------

    async def plan_spread(self, onto: Collection[int] | None = None) -> Plan:
        """The moves that give brokers equally many replicas. With `onto` only those brokers receive any.

        Raises BrokerNotAvailable for one of `onto` that is down or cordoned.
        """
        known = await self._check_receivers(onto)
        return plans.plan_spread(
            await self.reassignments.assignment(), known.racks, onto=onto, machines=known.machines
        )

    async def _check_receivers(self, onto: Collection[int] | None) -> _Placement:
        known = await self._read_placement()
        missing = sorted(set(onto or ()) - known.racks.keys())
        if missing:
            raise BrokerNotAvailable(
                f"the brokers {missing} are not live or are cordoned; brokers that can take replicas: "
                f"{sorted(known.racks)}"
            )
        return known

    async def measure_load(
        self, onto: Collection[int] | None = None, *, sample_seconds: float = 0.0
    ) -> ClusterLoad:
        """What each live broker has, as a plan of balance needs it. With `onto` only those brokers may receive
        replicas. With `sample_seconds` bytes in and out are measured for so long.

        Raises BrokerNotAvailable for one of `onto` that is down or cordoned.
        """
        known = await self._check_receivers(onto)
        return await measure_load(
            self._client,
            moving=await self.reassignments.under_way(),
            cordoned=known.cordoned,
            machines=known.machines,
            onto=onto,
            sample_seconds=sample_seconds,
        )

    async def plan_balance(
        self,
        onto: Collection[int] | None = None,
        *,
        sample_seconds: float = 0.0,
        tolerance: BalanceTolerance | None = None,
    ) -> BalancePlan:
        """The moves that level disks, replicas, leaders, and with `sample_seconds` bytes in and out. Raises as
        `measure_load`.
        """
        load = await self.measure_load(onto, sample_seconds=sample_seconds)
        return await asyncio.to_thread(plan_balance, load, tolerance)

    async def find_balancing(self) -> dict[TopicPartition, OngoingReassignment]:
        """The moves under way that may be a rebalance's: none that empties a cordoned broker, or changes the number of
        a partition's replicas.
        """
        cordoned = (await self._read_placement()).cordoned
        return {
            where: one
            for where, one in (await self.reassignments.under_way()).items()
            if len(one.target) == len(one.original) and cordoned.isdisjoint(one.removing)
        }

    async def stop_balance(self) -> tuple[TopicPartition, ...]:
        """Cancel the moves of a rebalance that are under way, and lift their throttles. Returns their partitions.

        Raises MovesRefused; the throttles are lifted all the same.
        """
        moving = tuple(await self.find_balancing())
        outcome = await self.reassignments.cancel(moving) if moving else {}
        await self.lift_throttles(moving)
        # One that has ended since needs no cancellation.
        raise_refusals(
            {where: one for where, one in outcome.items() if not isinstance(one, NoReassignmentInProgress)}
        )
        return moving

    async def plan_factor(self, topics: Collection[str], *, factor: int) -> Plan:
        """The moves that give topics so many replicas. Raises InvalidReplicationFactor, UnknownTopicOrPartition."""
        cluster = await self._client.with_retries(lambda: self._client.refresh(tuple(topics)))
        for topic in topics:
            cluster.topic(topic)
        everything = await self.reassignments.assignment()
        known = await self._read_placement()
        return plans.plan_factor(
            everything, known.racks, topics=topics, factor=factor, machines=known.machines
        )

    async def execute(
        self, plan: Plan, *, bytes_per_second: int | None = None, may_change_factor: bool = True
    ) -> Plan:
        """Begin the moves of a plan, and return the plan. Raises MovesRefused; the throttles are lifted if nothing
        moves then.
        """
        if not plan:
            return plan
        try:
            if bytes_per_second is not None:
                await self.reassignments.throttle(plan, bytes_per_second=bytes_per_second)
            raise_refusals(await self.reassignments.reassign(plan, may_change_factor=may_change_factor))
        except RequestError:
            if bytes_per_second is not None and not await self.reassignments.under_way():
                await self.lift_throttles()
            raise
        return plan

    async def lift_throttles(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Lift the throttles of moves that have ended. While other moves continue, only the topics of `partitions` lose
        theirs; otherwise every topic and live broker does. A topic that is throttled as a whole (`*`) keeps its
        throttle, which no move has set.
        """
        if await self.reassignments.under_way():
            await self.reassignments.unthrottle(topics={one.topic for one in partitions}, brokers=())
            return
        cluster = await self._client.with_retries(lambda: self._client.refresh(None))
        keys = [f"{side}.replication.throttled.replicas" for side in SIDES]
        found = await self._configs.describe_many(ResourceType.TOPIC, sorted(cluster.topics), keys=keys)
        throttled = {
            name
            for name, entries in found.items()
            # A topic that was deleted since has no throttle either.
            if not isinstance(entries, OdradekError)
            and any(entry.value not in ("", "*", None) for entry in entries)
        }
        await self.reassignments.unthrottle(topics=throttled, brokers=sorted(cluster.brokers))


def raise_refusals(outcome: Mapping[TopicPartition, OdradekError | None]) -> None:
    """Raise MovesRefused when any was."""
    refused = [(where, failure) for where, failure in outcome.items() if failure is not None]
    if refused:
        where, failure = refused[0]
        raise MovesRefused(
            f"{len(refused)} of {len(outcome)} moves were refused, among them that of {where}: {failure}"
        ) from failure
