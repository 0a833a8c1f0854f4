"""Plans that level the brokers of each machine among themselves, so that no byte leaves its machine. Pure.

They are for a broker that has become the first of several on its machine: it has everything, and the others nothing.
Each machine is planned as if its brokers were the cluster, by the goals of `balance_plans`.
"""

from __future__ import annotations

from dataclasses import replace

from odradek.client.admin.balance_plans import plan_balance
from odradek.client.admin.balance_values import (
    BalanceGoal,
    BalancePlan,
    BalanceTolerance,
    BrokerTotals,
    ClusterLoad,
)


def plan_within_machines(load: ClusterLoad, tolerance: BalanceTolerance | None = None) -> BalancePlan:
    """The moves of all machines together. It takes as long as `plan_balance`: call it in a thread."""
    now = dict(load.partitions)
    before: dict[int, BrokerTotals] = {}
    after: dict[int, BrokerTotals] = {}
    unmet: set[BalanceGoal] = set()
    without_room: set[int] = set()
    replica_moves = 0
    is_unfinished = False
    for machine in sorted({one.machine for one in load.brokers.values() if one.machine is not None}):
        brokers = {number: one for number, one in load.brokers.items() if one.machine == machine}
        plan = plan_balance(replace(load, brokers=brokers, partitions=now), tolerance)
        for where, replicas in plan.moves.items():
            now[where] = replace(now[where], replicas=replicas)
        before |= plan.before
        after |= plan.after
        unmet.update(plan.unmet)
        without_room.update(plan.without_room)
        replica_moves += plan.replica_moves
        is_unfinished |= plan.is_unfinished
    moves = {
        where: one.replicas for where, one in now.items() if one.replicas != load.partitions[where].replicas
    }
    bytes_of = {
        where: now[where].size_bytes * len(set(replicas) - set(load.partitions[where].replicas))
        for where, replicas in moves.items()
    }
    return BalancePlan(
        moves=moves,
        replica_moves=replica_moves,
        leader_moves=sum(
            replicas[0] != load.partitions[where].replicas[0] for where, replicas in moves.items()
        ),
        bytes_to_move=sum(bytes_of.values()),
        bytes_of=bytes_of,
        before=before,
        after=after,
        unmet=tuple(sorted(unmet)),
        without_room=tuple(sorted(without_room)),
        is_unfinished=is_unfinished,
    )
