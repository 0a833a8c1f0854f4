"""Requests to a Cluster's brokers that plan, begin, count and stop the moves of a rebalance."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from odradek.client.admin.balance_plans import plan_balance
from odradek.client.admin.balance_values import BalancePlan, BalanceTolerance, ClusterLoad
from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.plans import Plan
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.brokers import BrokerClients


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBalance:
    """A plan, and the picture that it was made from."""

    load: ClusterLoad
    plan: BalancePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancingMoves:
    """The moves of a rebalance that are under way. `bytes_left` have yet to arrive."""

    partitions: int = 0
    bytes_left: int = 0


class BalanceAdmin(Protocol):
    """The calls. They raise OdradekError when no broker answers."""

    async def plan_balance(self, bootstrap: str, *, tolerance: float) -> PlannedBalance:
        """Plan to level all brokers, to within a share of what each should have. Nothing changes."""

    async def count_balancing(self, bootstrap: str) -> BalancingMoves:
        """Count the moves under way that may be a rebalance's: neither those of a drain, nor changes of a number."""

    async def begin_balancing(self, bootstrap: str, moves: Plan, *, bytes_per_second: int | None) -> None:
        """Begin moves, throttled. Those before them have arrived. Raises MovesRefused for some of them."""

    async def end_balancing(self, bootstrap: str, elections: Collection[TopicPartition]) -> None:
        """Lift the throttles of a rebalance that has ended, and let these partitions' preferred leaders lead."""

    async def stop_balancing(self, bootstrap: str) -> int:
        """Cancel the moves under way, and lift their throttles; how many there were. Raises MovesRefused."""


class HttpBalanceAdmin:
    """The calls to real brokers."""

    def __init__(self, clients: BrokerClients) -> None:
        self._clients = clients

    async def plan_balance(self, bootstrap: str, *, tolerance: float) -> PlannedBalance:
        async with self._clients.connect_client(bootstrap) as client:
            load = await BrokerAdmin(client).measure_load()
        # It takes seconds for ten thousand partitions.
        plan = await asyncio.to_thread(plan_balance, load, BalanceTolerance(share=tolerance))
        return PlannedBalance(load=load, plan=plan)

    async def count_balancing(self, bootstrap: str) -> BalancingMoves:
        async with self._clients.connect_client(bootstrap) as client:
            admin = BrokerAdmin(client)
            moving = await admin.find_balancing()
            return BalancingMoves(partitions=len(moving), bytes_left=await admin.bytes_left(moving))

    async def begin_balancing(self, bootstrap: str, moves: Plan, *, bytes_per_second: int | None) -> None:
        async with self._clients.connect_client(bootstrap) as client:
            admin = BrokerAdmin(client)
            if bytes_per_second is not None:
                # The batch before has arrived, and its topics shall not stay throttled.
                await admin.lift_throttles()
            await admin.execute(moves, bytes_per_second=bytes_per_second, may_change_factor=False)

    async def end_balancing(self, bootstrap: str, elections: Collection[TopicPartition]) -> None:
        async with self._clients.connect_client(bootstrap) as client:
            admin = BrokerAdmin(client)
            if elections:
                # One that cannot lead yet is elected by the cluster later.
                await admin.reassignments.elect_leaders(elections)
            # Also without a rate: it may have been taken away since.
            await admin.lift_throttles()

    async def stop_balancing(self, bootstrap: str) -> int:
        async with self._clients.connect_client(bootstrap) as client:
            return len(await BrokerAdmin(client).stop_balance())
