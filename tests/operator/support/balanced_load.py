"""The load of brokers in memory, as a rebalance plans from it and changes it. A look lets some moves arrive."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from odradek.client.admin.balance_plans import plan_balance
from odradek.client.admin.balance_values import BalancedBroker, BalanceTolerance, ClusterLoad, PartitionLoad
from odradek.client.admin.brokers import MovesRefused
from odradek.client.admin.plans import Plan
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.balancing import BalancingMoves, PlannedBalance

MEBIBYTE = 1 << 20


@dataclass(kw_only=True)
class BalancedLoad:
    """Partitions by what they keep. `balancing` are the moves under way, of which `arrivals` end with each look."""

    load: Mapping[TopicPartition, PartitionLoad] = field(default_factory=dict)
    broker_ids: tuple[int, ...] = (0, 1, 2)
    balancing: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    arrivals: int = 50
    batches: list[Plan] = field(default_factory=list)
    rates: list[int | None] = field(default_factory=list)
    plans_made: int = 0
    balances_ended: int = 0
    refuses_moves: bool = False

    def fill(self, broker: int, partitions: int, *, size_bytes: int = 100 * MEBIBYTE) -> None:
        """Give one broker so many partitions of one replica."""
        found = {
            TopicPartition("orders", number): PartitionLoad(replicas=(broker,), size_bytes=size_bytes)
            for number in range(partitions)
        }
        self.load = {**self.load, **found}

    def placed(self) -> list[int]:
        """How many partitions each broker has."""
        return [sum(broker in one.replicas for one in self.load.values()) for broker in self.broker_ids]

    async def plan_balance(self, bootstrap: str, *, tolerance: float) -> PlannedBalance:
        self.plans_made += 1
        brokers = dict.fromkeys(self.broker_ids, BalancedBroker())
        load = ClusterLoad(brokers=brokers, partitions=self._after(self.balancing))
        return PlannedBalance(load=load, plan=plan_balance(load, BalanceTolerance(share=tolerance)))

    async def count_balancing(self, bootstrap: str) -> BalancingMoves:
        moving = list(self.balancing)
        self._arrive(moving[: self.arrivals])
        return BalancingMoves(
            partitions=len(moving), bytes_left=sum(self.load[where].size_bytes for where in moving)
        )

    async def begin_balancing(self, bootstrap: str, moves: Plan, *, bytes_per_second: int | None) -> None:
        assert not self.balancing, "a batch begins beside another"
        self.batches.append(moves)
        self.rates.append(bytes_per_second)
        if self.refuses_moves:
            raise MovesRefused("1 of 1 moves were refused, among them that of orders-0: no")
        self.balancing = {where: tuple(replicas) for where, replicas in moves.items()}

    async def end_balancing(self, bootstrap: str, elections: Collection[TopicPartition]) -> None:
        self.balances_ended += 1

    async def stop_balancing(self, bootstrap: str) -> int:
        cancelled = len(self.balancing)
        self.balancing = {}
        return cancelled

    def _arrive(self, arrived: Iterable[TopicPartition]) -> None:
        moves = {where: self.balancing.pop(where) for where in arrived}
        self.load = self._after(moves)

    def _after(self, moves: Mapping[TopicPartition, tuple[int, ...]]) -> dict[TopicPartition, PartitionLoad]:
        return {
            where: replace(one, replicas=moves.get(where, one.replicas)) for where, one in self.load.items()
        }
